#include "backend/train/token_rows.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "backend/base/sha256.h"

namespace foxscope {
namespace {

class ConcatenatedRows final : public TokenRows {
 public:
  explicit ConcatenatedRows(std::vector<std::unique_ptr<TokenRows>> parts)
      : TokenRows(summarize(parts)), parts_(std::move(parts)) {
    std::int64_t rows = 0;
    for (const auto& part : parts_) ends_.push_back(rows += part->rows());
  }

  [[nodiscard]] bool goes_on(std::int64_t row) const override {
    const auto [part, own] = place_of(row);
    return parts_[part]->goes_on(own);
  }

  void read(std::int64_t row, std::span<std::int32_t> tokens) const override {
    const auto [part, own] = place_of(row);
    parts_[part]->read(own, tokens);
  }

 private:
  /// The part that holds a row, and which of its rows that is.
  [[nodiscard]] std::pair<std::size_t, std::int64_t> place_of(std::int64_t row) const {
    const auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
    return {part, part == 0 ? row : row - ends_[part - 1]};
  }

  static Summary summarize(const std::vector<std::unique_ptr<TokenRows>>& parts) {
    Summary summary;
    summary.length = parts.front()->length();
    summary.columns = parts.front()->columns();
    std::string fingerprints;
    for (const auto& part : parts) {
      assert(part->length() == summary.length);
      summary.rows += part->rows();
      if (part->columns() != summary.columns) summary.columns = 1;
      fingerprints += part->fingerprint();
      summary.description += (summary.description.empty() ? "" : "; ") + part->description();
    }
    summary.fingerprint = sha256(fingerprints);
    return summary;
  }

  std::vector<std::unique_ptr<TokenRows>> parts_;
  std::vector<std::int64_t> ends_;  ///< the row behind the last one of each part
};

}  // namespace

std::unique_ptr<TokenRows> concatenate(std::vector<std::unique_ptr<TokenRows>> parts) {
  assert(!parts.empty());
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<ConcatenatedRows>(std::move(parts));
}

}  // namespace foxscope
