#include "backend/eval/heads.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

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
  [[nodiscard]] std::vector<std::size_t> next_batch() const {
    const std::vector<Window>& windows = model_.windows.windows;
    std::vector<std::size_t> batch;
    for (auto n = static_cast<std::size_t>(windows_done_); n < windows.size(); ++n) {
      const std::int64_t length = std::ssize(windows[n].ids);
      const bool fits = (std::ssize(batch) + 1) * length <= model_.tokens_at_once;
      if (!batch.empty() && (!fits || length != std::ssize(windows[batch.front()].ids))) break;
      batch.push_back(n);
    }
    return batch;
  }

  bool run_windows(CausalLM& lm, const std::vector<std::size_t>& batch) {
    tell(0);
    auto pass = forward_windows(model_, lm, batch, kKept, model_.place, Job{job_.stop, {}, job_.executor});
    if (!pass) return false;
    for (std::size_t n = 0; n < batch.size(); ++n) {
      const Window& window = model_.windows.windows[batch[n]];
      // What comes again is part of the statistics.
      auto tokens = std::make_shared<TokenTable>();
      tokens->id.assign(window.ids.begin(), window.ids.end());
      tokens->input_id = input_ids(window.ids, model_.bos);
      const auto trace = pass->recorders[n].finish(nullptr, tokens);
      trace->compute_on(model_.place.gpu());
      if (job_.stopped() || !measure(trace, window)) return false;
      ++windows_done_;
    }
    return true;
  }

  bool measure(const std::shared_ptr<const Trace>& trace, const Window& window) {
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
      if (head.head >= model_.info.mixer(head.layer).heads) continue;
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
