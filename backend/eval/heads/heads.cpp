#include "backend/eval/heads/heads.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/data/corpus.h"
#include "backend/eval/shared_work.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

const KeepSet kKept = {Keep::gates, Keep::rows, Keep::query_key};

/// Words of the whole corpus.
std::optional<WordCounts> count_words(const std::filesystem::path& corpus, const Job& job) {
  WordCounts counts;
  CorpusReader reader(corpus);
  while (const std::optional<CorpusDocument> document = reader.next()) {
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
std::optional<HeadsModel> plan(const OpenedModel& model, const WindowSource& source, const Job& job) {
  auto base = plan_model(model, source, job);
  if (!base) return std::nullopt;
  HeadsModel planned{std::move(*base), {}, 0};
  const RunNeeds needs = planned.needs(kKept);
  const FreeMemory free = free_memory(planned.device);
  memory_left(needs, planned.table->length, free, memory_user(planned));
  planned.tokens_at_once = batch_tokens(needs, free);
  planned.place = QueryKeyPlace(needs, std::max(planned.table->length, planned.tokens_at_once), free,
                                memory_user(planned), kernel_gpu(planned.device));
  return planned;
}

/// Statistics of a model's heads over windows, whichever process has them: added up in the windows' order, so that only
/// those that are before their time wait.
class HeadsOfWindows {
 public:
  explicit HeadsOfWindows(const HeadsModel& model) : model_(model), added_(model.info) {}

  /// @param window  each once
  void put(std::size_t window, HeadsAccumulator heads) {
    waiting_.emplace(window, std::move(heads));
    for (auto next = waiting_.find(added_windows_); next != waiting_.end(); next = waiting_.find(++added_windows_)) {
      added_.take(std::move(next->second));
      waiting_.erase(next);
    }
  }
  [[nodiscard]] std::int64_t known() const { return static_cast<std::int64_t>(added_windows_) + std::ssize(waiting_); }
  [[nodiscard]] bool whole() const { return added_windows_ == model_.windows.windows.size(); }
  /// @pre whole()
  EvaluatedHeads finish() {
    EvaluatedHeads heads = added_.finish();
    heads.windows = model_.table;
    return heads;
  }

 private:
  const HeadsModel& model_;
  HeadsAccumulator added_;
  std::size_t added_windows_ = 0;
  std::map<std::size_t, HeadsAccumulator> waiting_;
};

/// The work on one model.
class HeadsWork {
 public:
  /// @param take  gets what the other processes have made
  HeadsWork(const HeadsModel& model, std::uint32_t index, SharedPieces& pieces, HeadsOfWindows& heads,
            const SharedPieces::Take& take, const WordCounts* counts, const Job& job)
      : model_(model), index_(index), pieces_(pieces), heads_(heads), take_(take), counts_(counts), job_(job) {}

  /// @returns false if the job was stopped
  bool run() {
    batches_ = window_batches(model_, pieces_.least(static_cast<std::size_t>(model_.tokens_at_once)));
    const auto lm = model_.load(job_);
    if (!lm) return false;
    for (std::size_t batch = pieces_.next(index_); batch < batches_.size(); batch = pieces_.next(index_)) {
      if (job_.stopped() || !run_windows(*lm, batches_[batch])) return false;
    }
    const auto take = [this](std::uint32_t model, std::uint32_t window, std::span<const std::byte> made) {
      take_(model, window, made);
      tell(0);
    };
    return pieces_.collect([this] { return heads_.whole(); }, take, job_);
  }

 private:
  /// A mean leaves out windows that do not have a number, and must not leave out one whose run has failed.
  void check_measures(const HeadMeasures& measures, std::size_t window) const {
    const HeadStatistics& statistics = measures.statistics;
    // One token has no gate that F is made of.
    const bool gates = model_.windows.windows[window].ids.size() > 1;
    const char* const what = gates && std::isnan(statistics.mean_log_gate)                ? "the gate"
                             : statistics.has_attention && std::isnan(statistics.entropy) ? "attention"
                                                                                          : nullptr;
    if (what == nullptr) return;
    throw Error(fmt::format("{}: {} of layer {}, head {} in window {} is not a number: check the weights and --dtype",
                            model_.request.name, what, statistics.layer, statistics.head, window));
  }

  [[nodiscard]] std::int64_t head_count() const { return std::int64_t{model_.info.layers} * model_.info.heads; }

  /// One window counts for all its heads; the forward pass for none of them.
  /// @param heads_done  of the window at hand
  void tell(std::int64_t heads_done) const {
    const auto windows = static_cast<std::int64_t>(model_.windows.windows.size());
    const std::int64_t done = pieces_.first() ? heads_.known() : windows_done_;
    job_.tell({done * head_count() + heads_done, windows * head_count(), "heads", "measuring heads"});
  }

  bool run_windows(CausalLM& lm, const std::vector<std::size_t>& batch) {
    tell(0);
    auto pass = forward_windows(model_, lm, batch, kKept, model_.place, Job{job_.stop, {}, job_.executor});
    if (!pass) return false;
    for (std::size_t n = 0; n < batch.size(); ++n) {
      const Window& window = model_.windows.windows[batch[n]];
      // Tokens that come again are part of the statistics.
      auto tokens = std::make_shared<TokenTable>();
      tokens->id.assign(window.ids.begin(), window.ids.end());
      tokens->input_id = input_ids(window.ids, model_.bos_id);
      const auto trace = pass->recorders[n].finish(nullptr, tokens, model_.place.gpu());
      if (job_.stopped() || !measure(trace, batch[n])) return false;
      ++windows_done_;
    }
    return true;
  }

  bool measure(const std::shared_ptr<const Trace>& trace, std::size_t number) {
    tell(0);
    const Window& window = model_.windows.windows[number];
    std::vector<TokenClassSet> classes;
    if (counts_ != nullptr) classes = read_classes(window_classes(window, *counts_));
    MeasureOptions options;
    options.statistics.events = 0;
    options.with_split = true;
    options.classes = classes;
    HeadsAccumulator heads(model_.info);
    std::int64_t done = 0;
    if (!measure_heads(trace, options, job_, [&](const HeadMeasures& measures) {
          check_measures(measures, number);
          heads.add(measures);
          tell(++done);
        })) {
      return false;
    }
    heads.end_window(window.document);
    if (pieces_.first()) {
      heads_.put(number, std::move(heads));
    } else {
      const std::vector<std::uint8_t> packed = heads.packed();
      pieces_.post(index_, static_cast<std::uint32_t>(number), std::as_bytes(std::span(packed)));
    }
    return true;
  }

  const HeadsModel& model_;
  std::uint32_t index_;
  SharedPieces& pieces_;
  HeadsOfWindows& heads_;
  const SharedPieces::Take& take_;
  const WordCounts* counts_;  ///< null: the windows have no text
  const Job& job_;
  std::vector<std::vector<std::size_t>> batches_;  ///< indices of windows
  std::int64_t windows_done_ = 0;                  ///< by this process
};

}  // namespace

std::optional<HeadsEvaluation> evaluate_heads(const HeadsRequest& request, const HeadsEvents& events, const Job& job,
                                              Processes* processes) {
  const auto source = choose_source(request.input, request.models.front(), events.note, job);
  if (!source) return std::nullopt;
  std::vector<HeadsModel> models;
  for (const OpenedModel& model : request.models) {
    auto planned = plan(model, *source, job);
    if (!planned) return std::nullopt;
    models.push_back(std::move(*planned));
  }
  std::optional<WordCounts> counts;
  if (!request.input.corpus.empty()) {
    counts = count_words(request.input.corpus, job);
    if (!counts) return std::nullopt;
  } else if (events.note) {
    events.note(fmt::format("{}: token ids have no text, so there are no gates by class of token", source->name));
  }
  // Which words are rare is counted over the whole corpus.
  std::string facts = fmt::format("eval heads\na corpus of {} tokens\n", source->windows.corpus_tokens);
  for (const HeadsModel& model : models) facts += model_facts(model);
  require_same(processes, facts);
  HeadsEvaluation evaluation;
  evaluation.corpus = describe_corpus(request.input, *source);
  SharedPieces pieces(processes);
  std::vector<HeadsOfWindows> heads(models.begin(), models.end());
  const SharedPieces::Take take = [&](std::uint32_t model, std::uint32_t window, std::span<const std::byte> made) {
    heads.at(model).put(window, HeadsAccumulator::unpacked(models[model].info, made));
  };
  for (std::size_t n = 0; n < models.size(); ++n) {
    const HeadsModel& model = models[n];
    if (events.model) events.model(model.request.name);
    for (const std::string& note : model.config.notes) {
      if (events.note) events.note(fmt::format("{}: {}", model.request.name, note));
    }
    HeadsWork work(model, static_cast<std::uint32_t>(n), pieces, heads[n], take, counts ? &*counts : nullptr, job);
    if (!work.run()) return std::nullopt;
    if (pieces.first()) evaluation.models.push_back(heads[n].finish());
  }
  return evaluation;
}

}  // namespace foxscope
