#include "backend/eval/planned_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/model/checks.h"
#include "backend/model/interventions.h"
#include "backend/model/run_settings.h"
#include "backend/model/run_tokens.h"

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

std::optional<WindowSource> choose_source(const EvaluationInput& input, const Checkpoint& first, const Job& job) {
  WindowSource source;
  if (input.corpus.empty()) {
    source.name = input.ids.file.string();
    source.windows = read_window_ids(input.ids);
    return source;
  }
  source.name = input.corpus.string();
  source.tokenizer = Tokenizer::load(first.folder());
  auto windows = choose_windows(input.corpus, *source.tokenizer, input.windows, job);
  if (!windows) return std::nullopt;
  source.windows = std::move(*windows);
  return source;
}

EvaluatedCorpus describe_corpus(const EvaluationInput& input, const WindowSource& source) {
  EvaluatedCorpus corpus;
  corpus.source = without_folder(source.name);
  corpus.documents = source.windows.documents;
  corpus.seed = input.corpus.empty() ? 0 : input.windows.seed;
  corpus.documents_read = source.windows.corpus_documents;
  corpus.tokens_read = source.windows.corpus_tokens;
  return corpus;
}

RunNeeds needs_of(const PlannedModel& model, const KeepSet& keep) {
  return estimate_needs(model.config, model.parameters, keep, model.dtype, model.device);
}

MemoryUser memory_user(const PlannedModel& model) {
  return {fmt::format("{}: windows of {} tokens need", model.request.name, model.table->length), "--length", {}};
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
    const std::vector<std::int32_t> shifted = input_ids(ids, model.bos);
    inputs.insert(inputs.end(), shifted.begin(), shifted.end());
    labels.insert(labels.end(), ids.begin(), ids.end());
  }
  ForwardRequest forward;
  forward.batch = std::ssize(windows);
  forward.length = info.length;
  forward.input_ids = inputs;
  forward.labels = labels;
  forward.pruning_tolerance = info.pruning_tolerance;
  forward.interventions = model.request.interventions;
  const auto report = lm.forward(forward, recorders, job);
  if (!report) return std::nullopt;
  pass.report = *report;
  return pass;
}

std::optional<PlannedModel> plan_model(const RunRequest& request, const Checkpoint& checkpoint,
                                       const WindowSource& source, const Job& job) {
  PlannedModel planned;
  planned.request = request;
  planned.config = checkpoint.config();
  const ModelSettings settings = validate(request, checkpoint);
  planned.device = settings.device;
  planned.dtype = settings.dtype;
  planned.parameters = checkpoint.parameter_count();
  std::optional<Tokenizer> tokenizer;
  if (source.tokenizer || has_tokenizer(checkpoint)) tokenizer = Tokenizer::load(checkpoint.folder());
  planned.bos = choose_bos(request, checkpoint, tokenizer ? &*tokenizer : nullptr);
  planned.windows = source.tokenizer ? cut_windows(source.windows, *source.tokenizer, *tokenizer) : source.windows;
  for (std::size_t n = 0; n < planned.windows.windows.size(); ++n) {
    check_ids(planned.windows.windows[n].ids, planned.config.vocabulary_size,
              fmt::format("{}, window {}", source.name, n));
  }
  planned.table = table_of(planned.windows);
  check_interventions(request.interventions, planned.config,
                      *std::min_element(planned.table->tokens.begin(), planned.table->tokens.end()));
  auto info = describe_run(request, checkpoint, settings, planned.table->length, job);
  if (!info) return std::nullopt;
  planned.info = std::move(*info);
  return planned;
}

}  // namespace foxscope
