#include "backend/eval/atlas/atlas_merge.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/eval/atlas/atlas_tables.h"

namespace foxscope {
namespace {

/// The facts that two atlases must have alike, a line each.
std::vector<std::pair<std::string, std::string>> facts_of(const Atlas& atlas) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"seed", std::to_string(atlas.corpus.seed)},
      {"text", atlas.corpus.documents.empty() ? "none (--ids)" : "some (--corpus)"}};
  std::string names;
  for (const AtlasModel& model : atlas.models) names += (names.empty() ? "" : ", ") + model.info.name;
  facts.emplace_back("models", names);
  for (const AtlasModel& model : atlas.models) {
    const TraceInfo& info = model.info;
    const AtlasShape& shape = model.sums.shape();
    const auto add = [&](const char* what, std::string value) {
      facts.emplace_back(info.name + ": " + what, std::move(value));
    };
    add("weights", info.weights_sha256.substr(0, 16));
    add("config.json", sha256(info.config).substr(0, 16));
    add("dtype", to_string(info.dtype));
    add("pruning", std::to_string(info.pruning_tolerance));
    add("intervention", info.intervention.empty() ? "none" : info.intervention);
    add("BOS token", std::to_string(model.bos_id));
    add("vocabulary", std::to_string(shape.vocabulary));
    add("passages", std::to_string(shape.passages));
    add("rows", shape.rows == AtlasShape::kAllRows ? "all" : std::to_string(shape.rows));
    add("heads that it is compared with", std::to_string(shape.first_heads));
  }
  return facts;
}

[[noreturn]] void refuse_tokenizer(const AtlasModel& more, const std::string& first, const std::string& other,
                                   const std::string& difference) {
  throw Error(fmt::format("{}: {} has another tokenizer than in {} ({}): merge atlases of one tokenizer", other,
                          more.info.name, first, difference));
}

/// The digest of both; empty where one does not have it, as of earlier versions.
std::string merged_tokenizer(const AtlasModel& model, const AtlasModel& more, const std::string& first,
                             const std::string& other) {
  const std::string& one = model.tokenizer_sha256;
  if (one.empty() || more.tokenizer_sha256.empty()) return {};
  if (one != more.tokenizer_sha256) {
    refuse_tokenizer(more, first, other, "SHA-256 " + more.tokenizer_sha256.substr(0, 16));
  }
  return one;
}

/// Tokens of two atlases of one model in their order, with what they say.
std::vector<std::string> merged_strings(const AtlasModel& model, const AtlasModel& more, const std::string& first,
                                        const std::string& other) {
  const std::vector<std::int32_t> tokens = atlas_tokens(model.sums);
  const std::vector<std::int32_t> more_tokens = atlas_tokens(more.sums);
  if (model.token_strings.empty() && more.token_strings.empty()) return {};
  std::vector<std::string> strings;
  for (std::size_t a = 0, b = 0; a < tokens.size() || b < more_tokens.size();) {
    const bool in_more = b < more_tokens.size() && (a == tokens.size() || more_tokens[b] <= tokens[a]);
    const bool in_model = a < tokens.size() && (b == more_tokens.size() || tokens[a] <= more_tokens[b]);
    if (in_more && in_model && model.token_strings[a] != more.token_strings[b]) {
      refuse_tokenizer(more, first, other, fmt::format("token {}", more_tokens[b]));
    }
    strings.push_back(in_model ? model.token_strings[a] : more.token_strings[b]);
    a += in_model ? 1 : 0;
    b += in_more ? 1 : 0;
  }
  return strings;
}

/// @param documents  that come before those of `more`
void append(EvaluatedWindows& windows, const EvaluatedWindows& more, std::int32_t documents) {
  const std::int64_t length = std::max(windows.length, more.length);
  if (length > windows.length) {
    std::vector<std::int32_t> wider(windows.document.size() * index_of(length), -1);
    for (std::size_t n = 0; n < windows.document.size(); ++n) {
      const auto row = windows.token_id.begin() + static_cast<std::ptrdiff_t>(n) * windows.length;
      std::copy(row, row + windows.length, wider.begin() + static_cast<std::ptrdiff_t>(n) * length);
    }
    windows.token_id = std::move(wider);
    windows.length = length;
  }
  for (const std::int32_t document : more.document) windows.document.push_back(documents + document);
  const auto append_all = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append_all(windows.token_start, more.token_start);
  append_all(windows.byte_start, more.byte_start);
  append_all(windows.byte_end, more.byte_end);
  append_all(windows.tokens, more.tokens);
  for (std::size_t n = 0; n < more.document.size(); ++n) {
    const auto row = more.token_id.begin() + static_cast<std::ptrdiff_t>(n) * more.length;
    windows.token_id.insert(windows.token_id.end(), row, row + more.length);
    windows.token_id.resize(
        windows.document.size() * index_of(length) - (more.document.size() - n - 1) * index_of(length), -1);
  }
}

}  // namespace

const std::string* AtlasMerge::holder(const std::vector<std::int32_t>& ids) const {
  // Rows that begin with these ids stand together, behind them.
  const auto after = rows_.lower_bound(ids);
  if (after != rows_.end() && std::ranges::mismatch(ids, after->first).in1 == ids.end()) return &after->second;
  for (const std::size_t length : row_lengths_) {
    if (length >= ids.size()) break;
    const auto begins = rows_.find({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)});
    if (begins != rows_.end()) return &begins->second;
  }
  return nullptr;
}

void AtlasMerge::add_rows(const Atlas& atlas, const std::string& name) {
  if (!atlas.corpus.documents.empty()) return;
  // All models read the same ids.
  const EvaluatedWindows& windows = *atlas.models.front().windows;
  std::vector<std::vector<std::int32_t>> rows;
  for (std::size_t n = 0; n < windows.document.size(); ++n) {
    const auto begin = windows.token_id.begin() + static_cast<std::ptrdiff_t>(n) * windows.length;
    rows.emplace_back(begin, begin + windows.tokens[n]);
    const std::string* const known = holder(rows.back());
    if (known == nullptr) continue;
    throw Error(
        fmt::format("{}: holds window {} of token ids, as {} does, which would count twice: merge atlases of different "
                    "windows",
                    name, n, *known));
  }
  for (std::vector<std::int32_t>& row : rows) {
    row_lengths_.insert(row.size());
    rows_.emplace(std::move(row), name);
  }
}

AtlasMerge::AtlasMerge(Atlas first, std::string name) : atlas_(std::move(first)), name_(std::move(name)) {
  for (const AtlasModel& model : atlas_.models) {
    windows_.push_back(std::make_unique<EvaluatedWindows>(*model.windows));
  }
  for (const WindowDocument& document : atlas_.corpus.documents) documents_.emplace(document.sha256, name_);
  add_rows(atlas_, name_);
}

void AtlasMerge::add(Atlas more, const std::string& name) {
  const auto facts = facts_of(atlas_);
  const auto others = facts_of(more);
  for (std::size_t k = 0; k < std::min(facts.size(), others.size()); ++k) {
    if (facts[k] == others[k]) continue;
    throw Error(fmt::format("{}: {} {}, where {} has {}: merge atlases of one command over different corpora", name,
                            others[k].first, others[k].second, name_, facts[k].second));
  }
  for (const WindowDocument& document : more.corpus.documents) {
    const auto [known, is_new] = documents_.emplace(document.sha256, name);
    if (is_new) continue;
    throw Error(
        fmt::format("{}: holds the document {}, as {} does, which would count twice: merge atlases of different "
                    "documents",
                    name, document.name, known->second));
  }
  add_rows(more, name);
  // Without documents each window is its own.
  const auto documents = static_cast<std::int32_t>(atlas_.corpus.documents.empty() ? windows_.front()->document.size()
                                                                                   : atlas_.corpus.documents.size());
  for (std::size_t n = 0; n < atlas_.models.size(); ++n) {
    AtlasModel& model = atlas_.models[n];
    AtlasModel& other = more.models[n];
    std::string tokenizer = merged_tokenizer(model, other, name_, name);
    std::vector<std::string> strings = merged_strings(model, other, name_, name);
    other.sums.move_windows(std::ssize(windows_[n]->document));
    const std::int64_t bins = std::max(model.sums.shape().bins, other.sums.shape().bins);
    for (AtlasSums* const part : {&model.sums, &other.sums}) {
      part->widen(bins, static_cast<std::int64_t>(model.numbers.masses));
    }
    model.sums.add_packed(other.sums.packed());
    model.tokenizer_sha256 = std::move(tokenizer);
    model.token_strings = std::move(strings);
    append(*windows_[n], *other.windows, documents);
    model.info.length = windows_[n]->length;
  }
  EvaluatedCorpus& corpus = atlas_.corpus;
  corpus.source += ", " + more.corpus.source;
  corpus.documents.insert(corpus.documents.end(), more.corpus.documents.begin(), more.corpus.documents.end());
  corpus.documents_read += more.corpus.documents_read;
  corpus.tokens_read += more.corpus.tokens_read;
}

Atlas AtlasMerge::finish() && {
  for (std::size_t n = 0; n < windows_.size(); ++n) atlas_.models[n].windows = std::move(windows_[n]);
  return std::move(atlas_);
}

}  // namespace foxscope
