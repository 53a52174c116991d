#include "backend/eval/atlas/atlas_merge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/eval/atlas/atlas_tables.h"

namespace foxscope {
namespace {

/// What two atlases must have alike, a line each.
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

void check_documents(const Atlas& atlas, const Atlas& more, const std::string& first, const std::string& other) {
  std::map<std::string, const WindowDocument*> known;
  for (const WindowDocument& document : atlas.corpus.documents) known.emplace(document.sha256, &document);
  for (const WindowDocument& document : more.corpus.documents) {
    if (!known.contains(document.sha256)) continue;
    throw Error(
        fmt::format("{}: holds the document {}, as {} does, which would count twice: merge atlases of "
                    "different documents",
                    other, document.name, first));
  }
}

void check_tokenizers(const AtlasModel& model, const AtlasModel& more, const std::string& first,
                      const std::string& other) {
  std::map<std::int32_t, const std::string*> known;
  const auto tokens = atlas_tokens(model.sums);
  for (std::size_t n = 0; n < model.token_strings.size(); ++n) known.emplace(tokens[n], &model.token_strings[n]);
  const auto more_tokens = atlas_tokens(more.sums);
  for (std::size_t n = 0; n < more.token_strings.size(); ++n) {
    const auto found = known.find(more_tokens[n]);
    if (found == known.end() || *found->second == more.token_strings[n]) continue;
    throw Error(fmt::format("{}: {} has another tokenizer than in {} (token {}): merge atlases of one tokenizer", other,
                            more.info.name, first, more_tokens[n]));
  }
}

std::vector<std::string> merged_strings(const AtlasModel& a, const AtlasModel& b, const AtlasSums& sums) {
  std::map<std::int32_t, std::string> strings;
  for (const AtlasModel* const model : {&a, &b}) {
    const auto tokens = atlas_tokens(model->sums);
    for (std::size_t n = 0; n < model->token_strings.size(); ++n) strings.emplace(tokens[n], model->token_strings[n]);
  }
  std::vector<std::string> result;
  if (strings.empty()) return result;
  for (const std::int32_t token : atlas_tokens(sums)) result.push_back(strings[token]);
  return result;
}

std::shared_ptr<const EvaluatedWindows> merged_windows(const EvaluatedWindows& a, const EvaluatedWindows& b,
                                                       std::int32_t documents) {
  auto windows = std::make_shared<EvaluatedWindows>();
  windows->length = std::max(a.length, b.length);
  for (const EvaluatedWindows* const part : {&a, &b}) {
    const std::int32_t before = part == &a ? 0 : documents;
    for (const std::int32_t document : part->document) windows->document.push_back(before + document);
    const auto append = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    append(windows->token_start, part->token_start);
    append(windows->byte_start, part->byte_start);
    append(windows->byte_end, part->byte_end);
    append(windows->tokens, part->tokens);
    for (std::size_t n = 0; n < part->document.size(); ++n) {
      const auto row = part->token_id.begin() + static_cast<std::ptrdiff_t>(n) * part->length;
      windows->token_id.insert(windows->token_id.end(), row, row + part->length);
      windows->token_id.insert(windows->token_id.end(), index_of(windows->length - part->length), -1);
    }
  }
  return windows;
}

void add_atlas(Atlas& atlas, const Atlas& more) {
  // Without documents each window is its own.
  const auto documents = static_cast<std::int32_t>(
      atlas.corpus.documents.empty() ? atlas.models.front().windows->document.size() : atlas.corpus.documents.size());
  for (std::size_t n = 0; n < atlas.models.size(); ++n) {
    AtlasModel& model = atlas.models[n];
    AtlasSums moved = more.models[n].sums;
    moved.move_windows(std::ssize(model.windows->document));
    AtlasSums sums = model.sums;
    const std::int64_t bins = std::max(sums.shape().bins, moved.shape().bins);
    for (AtlasSums* const part : {&sums, &moved}) part->widen(bins, static_cast<std::int64_t>(model.numbers.masses));
    sums.add_packed(moved.packed());
    model.token_strings = merged_strings(model, more.models[n], sums);
    model.sums = std::move(sums);
    model.windows = merged_windows(*model.windows, *more.models[n].windows, documents);
    model.info.length = model.windows->length;
  }
  EvaluatedCorpus& corpus = atlas.corpus;
  corpus.source += ", " + more.corpus.source;
  corpus.documents.insert(corpus.documents.end(), more.corpus.documents.begin(), more.corpus.documents.end());
  corpus.documents_read += more.corpus.documents_read;
  corpus.tokens_read += more.corpus.tokens_read;
}

}  // namespace

Atlas merge_atlases(std::vector<Atlas> parts, const std::vector<std::string>& names) {
  Atlas atlas = std::move(parts.front());
  const auto facts = facts_of(atlas);
  for (std::size_t n = 1; n < parts.size(); ++n) {
    const auto others = facts_of(parts[n]);
    for (std::size_t k = 0; k < std::min(facts.size(), others.size()); ++k) {
      if (facts[k] == others[k]) continue;
      throw Error(fmt::format("{}: {} {}, where {} has {}: merge atlases of one command over different corpora",
                              names[n], others[k].first, others[k].second, names.front(), facts[k].second));
    }
    check_documents(atlas, parts[n], names.front(), names[n]);
    for (std::size_t model = 0; model < atlas.models.size(); ++model) {
      check_tokenizers(atlas.models[model], parts[n].models[model], names.front(), names[n]);
    }
    add_atlas(atlas, parts[n]);
  }
  return atlas;
}

}  // namespace foxscope
