#include "backend/eval/planned_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/sha256.h"
#include "backend/model/layer/checks.h"

namespace foxscope {
namespace {

std::shared_ptr<const EvaluatedWindows> table_of(const Windows& windows) {
  auto table = std::make_shared<EvaluatedWindows>();
  for (const Window& window : windows.windows) {
    table->length = std::max(table->length, static_cast<std::int64_t>(window.ids.size()));
  }
  for (const Window& window : windows.windows) {
    table->document.push_back(window.document);
    table->tokens.push_back(static_cast<std::int64_t>(window.ids.size()));
    table->token_id.insert(table->token_id.end(), window.ids.begin(), window.ids.end());
    table->token_id.resize(table->document.size() * static_cast<std::size_t>(table->length), -1);
    if (windows.documents.empty()) continue;
    table->token_start.push_back(window.token_start);
    table->byte_start.push_back(window.byte_start);
    table->byte_end.push_back(window.byte_end);
  }
  return table;
}

}  // namespace

std::optional<WindowSource> choose_source(const EvaluationInput& input, const OpenedModel& first,
                                          const std::function<void(const std::string&)>& note, const Job& job) {
  WindowSource source;
  const auto tell_repeated = [&](const char* what) {
    const std::int64_t repeated = source.windows.repeated;
    if (repeated == 0 || !note) return;
    note(repeated == 1
             ? fmt::format("{}: a {} repeats one before it, and is left out", source.name, what)
             : fmt::format("{}: {} {}s repeat one before them, and are left out", source.name, repeated, what));
  };
  if (input.corpus.empty()) {
    source.name = input.ids.file.string();
    source.windows = read_window_ids(input.ids);
    tell_repeated("row");
    return source;
  }
  source.name = input.corpus.string();
  source.chooser = first;
  auto windows = choose_windows(input.corpus, first.tokenizer(), input.windows, job);
  if (!windows) return std::nullopt;
  source.windows = std::move(*windows);
  tell_repeated("document");
  return source;
}

EvaluatedCorpus describe_corpus(const EvaluationInput& input, const WindowSource& source) {
  EvaluatedCorpus corpus;
  corpus.source = without_folder(source.name);
  corpus.documents = source.windows.documents;
  corpus.seed = input.windows.seed;
  corpus.documents_read = source.windows.corpus_documents;
  corpus.tokens_read = source.windows.corpus_tokens;
  return corpus;
}

MemoryUser memory_user(const PlannedModel& model) {
  return {fmt::format("{}: windows of {} tokens need", model.request.name, model.table->length), "--length", {}};
}

std::vector<std::vector<std::size_t>> window_batches(const PlannedModel& model, std::size_t tokens_at_once,
                                                     std::vector<bool> done) {
  const std::vector<Window>& windows = model.windows.windows;
  done.resize(windows.size());
  std::vector<std::vector<std::size_t>> batches;
  for (std::size_t first = 0; first < windows.size(); ++first) {
    if (done[first]) continue;
    const std::size_t length = windows[first].ids.size();
    const std::size_t most = std::max<std::size_t>(1, tokens_at_once / length);
    std::vector<std::size_t>& batch = batches.emplace_back();
    for (std::size_t window = first; window < windows.size() && batch.size() < most; ++window) {
      if (done[window] || windows[window].ids.size() != length) continue;
      batch.push_back(window);
      done[window] = true;
    }
  }
  return batches;
}

std::optional<WindowPass> forward_windows(const PlannedModel& model, CausalLM& lm, std::span<const std::size_t> windows,
                                          const KeepSet& keep, const QueryKeyPlace& place, const Job& job) {
  TraceInfo info = model.info;
  info.length = std::ssize(model.windows.windows[windows.front()].ids);
  WindowPass pass;
  std::vector<Recorder*> recorders;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> labels;
  for (const std::size_t window : windows) {
    recorders.push_back(&pass.recorders.emplace_back(info, keep, place.make_store(info, keep)));
    const std::vector<std::int32_t>& ids = model.windows.windows[window].ids;
    const std::vector<std::int32_t> shifted = input_ids(ids, model.bos_id);
    inputs.insert(inputs.end(), shifted.begin(), shifted.end());
    labels.insert(labels.end(), ids.begin(), ids.end());
  }
  const ForwardRequest forward{model.options, std::ssize(windows), info.length, inputs, labels};
  const auto report = lm.forward(forward, recorders, job);
  if (!report) return std::nullopt;
  pass.report = *report;
  return pass;
}

std::optional<PlannedModel> plan_model(const OpenedModel& model, const WindowSource& source, const Job& job) {
  PlannedModel planned{model, model.bos(), source.windows, nullptr, {}};
  if (source.chooser) planned.windows = cut_windows(source.windows, source.chooser->tokenizer(), model.tokenizer());
  for (std::size_t n = 0; n < planned.windows.windows.size(); ++n) {
    check_ids(planned.windows.windows[n].ids, model.config.vocabulary_size,
              fmt::format("{}, window {}", source.name, n));
  }
  planned.table = table_of(planned.windows);
  check_length(planned.table->length, model.config);
  check_interventions(model.options.interventions, model.config, std::ranges::min(planned.table->tokens));
  auto info = model.describe(planned.table->length, job);
  if (!info) return std::nullopt;
  planned.info = std::move(*info);
  return planned;
}

std::string model_facts(const TraceInfo& info, std::int32_t bos_id) {
  return fmt::format("model {}\nweights {}\nconfig.json {}\ndtype {}\npruning {}\nintervention {}\nBOS token {}\n",
                     info.name, info.weights_sha256, sha256(info.config), to_string(info.dtype), info.pruning_tolerance,
                     info.intervention.empty() ? "none" : info.intervention, bos_id);
}

std::string model_facts(const PlannedModel& model) {
  const EvaluatedWindows& table = *model.table;
  const auto hash = [](const auto& values) {
    return sha256(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])));
  };
  return model_facts(model.info, model.bos_id) +
         fmt::format("{} of {} documents\n{} windows of up to {} tokens\ntokens {}\nlengths {}\ndocuments {}\n",
                     model.windows.documents.size(), model.windows.corpus_documents, model.windows.windows.size(),
                     table.length, hash(table.token_id), hash(table.tokens), hash(table.document));
}

}  // namespace foxscope
