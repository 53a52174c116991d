#include "backend/eval/heads.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/eval/corpus.h"
#include "backend/map/team.h"
#include "backend/model/engine.h"
#include "backend/model/query_key_place.h"

namespace foxscope {
namespace {

const KeepSet kKept = {Keep::gates, Keep::rows, Keep::query_key};

/// Words of the whole corpus.
std::optional<WordCounts> count_words(const std::filesystem::path& corpus, const Job& job) {
  WordCounts counts;
  CorpusReader reader(corpus);
  while (const std::optional<Document> document = reader.next()) {
    if (job.stopped()) return std::nullopt;
    job.tell({reader.bytes_done(), reader.total_bytes(), "bytes", "counting words"});
    counts.add(document->text);
  }
  return counts;
}

/// A model whose memory has been looked at.
struct HeadsModel : PlannedModel {
  QueryKeyPlace place;
  std::int64_t tokens_at_once = 0;  ///< of windows of one length, if one alone is not longer
};

/// @returns nothing if the job was stopped
std::optional<HeadsModel> plan(const RunRequest& request, const Checkpoint& checkpoint, const WindowSource& source,
                               const Job& job) {
  auto base = plan_model(request, checkpoint, source, job);
  if (!base) return std::nullopt;
  HeadsModel planned{std::move(*base), {}, 0};
  const RunNeeds needs = needs_of(planned, kKept);
  const FreeMemory free = free_memory(planned.device);
  memory_left(needs, planned.table->length, free, memory_user(planned));
  planned.tokens_at_once = batch_tokens(needs, free);
  planned.place = QueryKeyPlace(needs, std::max(planned.table->length, planned.tokens_at_once), free,
                                memory_user(planned), kernel_gpu(planned.device));
  return planned;
}

/// The work on one model.
class HeadsWork {
 public:
  HeadsWork(const HeadsModel& model, const WordCounts* counts, const Job& job)
      : model_(model), counts_(counts), job_(job), accumulator_(model.info) {}

  std::optional<EvaluatedHeads> run() {
    job_.tell({0, 1, "models", "load"});
    const auto lm =
        open_model(model_.request, Checkpoint::open(model_.request.model), model_.device, model_.dtype, job_);
    if (!lm) return std::nullopt;
    for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
      if (job_.stopped() || !run_windows(*lm, batch)) return std::nullopt;
    }
    EvaluatedHeads heads = accumulator_.finish();
    heads.windows = model_.table;
    return heads;
  }

 private:
  /// A mean leaves out windows that do not have a number, and must not leave out one whose run has failed.
  void check_measures(const HeadMeasures& measures) const {
    const HeadStatistics& statistics = measures.statistics;
    const char* const what = std::isnan(statistics.mean_log_gate)                         ? "the gate"
                             : statistics.has_attention && std::isnan(statistics.entropy) ? "attention"
                                                                                          : nullptr;
    if (what == nullptr) return;
    throw Error(fmt::format("{}: {} of layer {}, head {} in window {} is not a number: check the weights and --dtype",
                            model_.request.name, what, statistics.layer, statistics.head, windows_done_));
  }

  [[nodiscard]] std::int64_t head_count() const { return std::int64_t{model_.info.layers} * model_.info.heads; }

  /// One window counts for all its heads; the forward pass for none of them.
  void tell(std::int64_t heads_done) const {
    const auto windows = static_cast<std::int64_t>(model_.windows.windows.size());
    job_.tell({windows_done_ * head_count() + heads_done, windows * head_count(), "heads", "measuring heads"});
  }

  /// The next windows that are equally long, as many as go together.
  [[nodiscard]] std::span<const Window> next_batch() const {
    const auto left = std::span(model_.windows.windows).subspan(static_cast<std::size_t>(windows_done_));
    if (left.empty()) return {};
    const std::int64_t length = std::ssize(left.front().ids);
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, model_.tokens_at_once / length));
    std::size_t count = 1;
    while (count < std::min(most, left.size()) && std::ssize(left[count].ids) == length) ++count;
    return left.first(count);
  }

  /// @returns no traces if the job was stopped
  std::vector<std::shared_ptr<const Trace>> forward(CausalLM& lm, std::span<const Window> windows) const {
    TraceInfo info = model_.info;
    info.length = std::ssize(windows.front().ids);
    std::deque<Recorder> recorders;
    std::vector<Recorder*> pointers;
    std::vector<std::shared_ptr<TokenTable>> tables;
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> labels;
    for (const Window& window : windows) {
      pointers.push_back(&recorders.emplace_back(info, kKept, model_.place.make_store(info, kKept)));
      // What comes again is part of the statistics.
      TokenTable& tokens = *tables.emplace_back(std::make_shared<TokenTable>());
      tokens.id.assign(window.ids.begin(), window.ids.end());
      tokens.input_id = input_ids(window.ids, model_.bos);
      inputs.insert(inputs.end(), tokens.input_id.begin(), tokens.input_id.end());
      labels.insert(labels.end(), window.ids.begin(), window.ids.end());
    }
    ForwardRequest request;
    request.batch = std::ssize(windows);
    request.length = info.length;
    request.input_ids = inputs;
    request.labels = labels;
    request.pruning_tolerance = info.pruning_tolerance;
    request.interventions = model_.request.interventions;
    const Job quiet{job_.stop, {}, job_.executor};
    if (!lm.forward(request, pointers, quiet)) return {};
    std::vector<std::shared_ptr<const Trace>> traces;
    for (std::size_t n = 0; n < tables.size(); ++n) {
      traces.push_back(recorders[n].finish(nullptr, tables[n]));
      traces.back()->compute_on(model_.place.gpu());
    }
    return traces;
  }

  bool run_windows(CausalLM& lm, std::span<const Window> windows) {
    tell(0);
    auto traces = forward(lm, windows);
    if (traces.empty()) return false;
    for (std::size_t n = 0; n < windows.size(); ++n) {
      if (job_.stopped() || !measure(std::move(traces[n]), windows[n])) return false;
      ++windows_done_;
    }
    return true;
  }

  bool measure(std::shared_ptr<const Trace> trace, const Window& window) {
    tell(0);
    std::vector<TokenClassSet> classes;
    if (counts_ != nullptr) classes = read_classes(window_classes(window, *counts_));
    MeasureOptions options;
    options.statistics.events = 0;
    options.with_split = true;
    options.classes = classes;
    const Team team(job_);
    const Job quiet{job_.stop, {}, team.executor()};
    for (std::int64_t n = 0; n < head_count(); ++n) {
      const HeadOf head{trace, static_cast<int>(n / model_.info.heads), static_cast<int>(n % model_.info.heads)};
      const auto measures = measure_head(head, options, quiet);
      if (!measures) return false;
      check_measures(*measures);
      accumulator_.add(*measures);
      tell(n + 1);
    }
    accumulator_.end_window(window.document);
    return true;
  }

  const HeadsModel& model_;
  const WordCounts* counts_;  ///< null: the windows have no text
  const Job& job_;
  HeadsAccumulator accumulator_;
  std::int64_t windows_done_ = 0;
};

}  // namespace

std::optional<HeadsEvaluation> evaluate_heads(const HeadsRequest& request, const HeadsEvents& events, const Job& job) {
  std::vector<Checkpoint> checkpoints;
  for (const RunRequest& model : request.models) checkpoints.push_back(Checkpoint::open(model.model));
  const auto source = choose_source(request.input, checkpoints.front(), job);
  if (!source) return std::nullopt;
  std::vector<HeadsModel> models;
  for (std::size_t n = 0; n < request.models.size(); ++n) {
    auto planned = plan(request.models[n], checkpoints[n], *source, job);
    if (!planned) return std::nullopt;
    models.push_back(std::move(*planned));
  }
  checkpoints.clear();  // their files need not stay mapped
  std::optional<WordCounts> counts;
  if (!request.input.corpus.empty()) {
    counts = count_words(request.input.corpus, job);
    if (!counts) return std::nullopt;
  } else if (events.note) {
    events.note(fmt::format("{}: token ids have no text, so gates are not told by class of the token", source->name));
  }
  HeadsEvaluation evaluation;
  evaluation.corpus = describe_corpus(request.input, *source);
  for (const HeadsModel& model : models) {
    if (events.model) events.model(model.request.name);
    for (const std::string& note : model.config.notes) {
      if (events.note) events.note(fmt::format("{}: {}", model.request.name, note));
    }
    auto heads = HeadsWork(model, counts ? &*counts : nullptr, job).run();
    if (!heads) return std::nullopt;
    evaluation.models.push_back(std::move(*heads));
  }
  return evaluation;
}

}  // namespace foxscope
