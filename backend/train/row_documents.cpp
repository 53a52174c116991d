#include "backend/train/row_documents.h"

#include <algorithm>

#include "backend/base/index.h"
#include "backend/eval/loss/loss_statistics.h"

namespace foxscope {
namespace {

/// Whether a row is of the document with which another row before it ended.
class Reach {
 public:
  Reach(const TokenRows& rows, std::int32_t bos)
      : rows_(rows), bos_(bos), between_(static_cast<std::size_t>(rows.length())) {}

  [[nodiscard]] bool spans(std::int64_t from, std::int64_t to) {
    for (std::int64_t row = from + 1; row <= to; ++row) {
      if (!rows_.goes_on(row)) return false;
    }
    for (std::int64_t row = from + 1; row < to; ++row) {
      rows_.read(row, between_);
      if (std::ranges::find(between_, bos_) != between_.end()) return false;
    }
    return true;
  }

 private:
  const TokenRows& rows_;
  std::int32_t bos_;
  std::vector<std::int32_t> between_;
};

}  // namespace

std::vector<DocumentPart> document_parts(const TokenRows& rows, std::span<const std::int64_t> chosen,
                                         std::int32_t bos) {
  std::vector<DocumentPart> parts;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows.length()));
  Reach reach(rows, bos);
  std::int64_t document = -1;
  bool ended = true;
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    if (ended || !reach.spans(chosen[n - 1], chosen[n])) ++document;
    rows.read(chosen[n], tokens);
    ended = false;
    std::int64_t begin = 0;
    for (std::int64_t position = 0; position < rows.length(); ++position) {
      if (ended) ++document;
      ended = tokens[index_of(position)] == bos;
      if (!ended && position + 1 < rows.length()) continue;
      parts.push_back({static_cast<std::int64_t>(n), begin, position + 1, document});
      begin = position + 1;
    }
  }
  return parts;
}

Estimate held_out_estimate(std::span<const DocumentPart> parts, std::span<const double> sums) {
  const bool one_document = parts.back().document == 0;
  const auto group_of = [&](const DocumentPart& part) {
    return static_cast<std::size_t>(one_document ? part.row : part.document);
  };
  const std::size_t groups = group_of(parts.back()) + 1;
  std::vector<double> losses(groups);
  std::vector<double> tokens(groups);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    losses[group_of(parts[n])] += sums[n];
    tokens[group_of(parts[n])] += static_cast<double>(parts[n].end - parts[n].begin);
  }
  ErrorGroups over = group_sizes(one_document ? ErrorGroups::Kind::blocks : ErrorGroups::Kind::documents, tokens);
  if (one_document) over.tokens = static_cast<std::int64_t>(tokens.front());
  return ratio_over_groups(losses, tokens, over);
}

}  // namespace foxscope
