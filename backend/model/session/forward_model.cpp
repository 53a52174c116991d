#include "backend/model/session/forward_model.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/share_of_job.h"
#include "backend/model/session/run_memory.h"

namespace foxscope {
namespace {

/// Scores of so few tokens are made without asking a GPU what memory it has: to ask takes from LibTorch's allocator
/// what it holds for the next pass.
constexpr std::int64_t kUnaskedTokens = 4096;
constexpr FreeMemory kPlenty = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};

/// A state, which its model reads one position more into.
class ModelDecodeState final : public DecodeState {
 public:
  ModelDecodeState(const ForwardModel& model, const PromptRequest& request)
      : model_(&model),
        interventions_(request.interventions),
        tolerance_(request.pruning_tolerance),
        state_(model.make_state(interventions_, request.pruning_tolerance)) {
    remember(request.input_ids);
  }
  ModelDecodeState(const ModelDecodeState& other)
      : DecodeState(other),
        model_(other.model_),
        interventions_(other.interventions_),
        tolerance_(other.tolerance_),
        ids_(other.ids_),
        state_(other.state_->copy()),
        next_(other.next_) {}
  ModelDecodeState& operator=(const ModelDecodeState&) = delete;

  [[nodiscard]] ForwardState* state() { return state_.get(); }
  [[nodiscard]] bool changed() const { return !interventions_.empty(); }
  void stand_before(std::shared_ptr<const NextToken> next) { next_ = std::move(next); }
  /// The probe of its prompt.
  [[nodiscard]] Probe probe(Recorder* recorder) const { return {recorder, interventions_}; }

  [[nodiscard]] std::unique_ptr<DecodeState> copy() const override { return std::make_unique<ModelDecodeState>(*this); }
  [[nodiscard]] std::int64_t length() const override { return state_->length(); }
  [[nodiscard]] const NextToken& next() const override { return *next_; }
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override { return state_->held_keys(); }

  void read(std::int32_t id) override {
    check_next_token(id, length(), model_->config());
    remember({&id, 1});
    if (!model_->config().turns_alike(length(), length() + 1)) return read_again();
    model_->within_device(length() + 1, [&] {
      Forward::Input input;
      input.ids = {&id, 1};
      const Probe unkept = probe(nullptr);
      ForwardState* const states[] = {state_.get()};
      model_->with_next_forward(1, [&](Forward& forward) {
        ForwardReport report;
        forward.run(input, {&unkept, 1}, states, {}, report);
        next_ = forward.predict_next(1).front();
      });
    });
  }

 private:
  /// Ids are needed once more where a longer text turns its keys otherwise.
  void remember(std::span<const std::int32_t> ids) {
    if (model_->config().turns_by_length()) ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  /// Reads all ids as one text: from this length on all keys turn otherwise than those that are held.
  void read_again() {
    const std::int64_t length = std::ssize(ids_);
    state_ = model_->make_state(interventions_, tolerance_);
    model_->within_device(length, [&] {
      Forward::Input input;
      input.ids = ids_;
      input.pruning_tolerance = tolerance_;
      const Probe unkept = probe(nullptr);
      ForwardState* const states[] = {state_.get()};
      const auto forward = model_->make_forward(1, length);
      ForwardReport report;
      forward->run(input, {&unkept, 1}, states, {}, report);
      next_ = forward->predict_next(1).front();
    });
  }

  const ForwardModel* model_;
  std::vector<Intervention> interventions_;
  double tolerance_;
  std::vector<std::int32_t> ids_;  ///< that were read, where ModelConfig::turns_by_length
  std::unique_ptr<ForwardState> state_;
  std::shared_ptr<const NextToken> next_;  ///< set by whoever has read the prompt
};

}  // namespace

std::optional<ForwardReport> ForwardModel::forward(const ForwardRequest& request, std::span<Recorder* const> recorders,
                                                   const Job& job) {
  check_request(request, recorders, config());
  ForwardReport report;
  bool done = false;
  within_device(request.length, [&] {
    std::vector<Probe> probes;
    for (Recorder* const recorder : recorders) probes.emplace_back(recorder, request.interventions);
    Forward::Input input;
    input.batch = request.batch;
    input.ids = request.input_ids;
    input.labels = request.labels;
    input.first_layer = request.start.layer;
    input.hidden = request.start.hidden;
    input.pruning_tolerance = request.pruning_tolerance;
    if (job.stopped()) return;
    if (std::ranges::any_of(probes, [](const Probe& probe) { return probe.keeps(Keep::saliency); })) {
      const Range target = request.saliency.value_or(Range{0, request.length});
      done = run_with_saliency(input, target, probes, job, report);
    } else {
      done = make_forward(request.batch, request.length)->run(input, probes, {}, job, report);
    }
  });
  if (!done) return std::nullopt;
  return report;
}

std::optional<std::vector<TextScores>> ForwardModel::score(const ScoreRequest& request, const Job& job) {
  check_score(request, config());
  std::int64_t longest = 0;
  std::int64_t total = 0;
  for (const ScoredText& text : request.texts) {
    longest = std::max(longest, std::ssize(text.input_ids));
    total += std::ssize(text.input_ids);
  }
  // The weights are in memory.
  const RunNeeds needs = estimate_needs(config(), 0, {}, dtype(), device());
  const FreeMemory free = total <= kUnaskedTokens ? kPlenty : free_memory(device());
  memory_left(needs, longest, free, {fmt::format("scores of a text of {} tokens need", longest), "", {"shorten it"}});
  std::vector<TextScores> scores(request.texts.size());
  std::int64_t done = 0;
  for (const auto& batch : score_batches(request, batch_tokens(needs, free))) {
    std::int64_t tokens = 0;
    for (const std::size_t text : batch) tokens += std::ssize(request.texts[text].input_ids);
    const Job of_batch = share_of_job(job, {done, total, "tokens", "score"}, tokens);
    if (job.stopped() || !score_batch(request, batch, scores, of_batch)) return std::nullopt;
    done += tokens;
  }
  return scores;
}

void ForwardModel::decode_step(std::span<DecodeState* const> decode_states, std::span<const std::int32_t> ids) {
  if (ids.size() != decode_states.size()) {
    throw ShapeError(fmt::format("[decode_step] ids: expected {}, got {}", decode_states.size(), ids.size()));
  }
  std::vector<std::size_t> alone;
  std::vector<std::size_t> beside;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    check_next_token(ids[n], decode_states[n]->length(), config());
    const bool changed = static_cast<const ModelDecodeState*>(decode_states[n])->changed();
    const bool by_itself = changed || decode_batch(1) == 0 || config().turns_by_length();
    (by_itself ? alone : beside).push_back(n);
  }
  for (const std::size_t n : alone) decode_states[n]->read(ids[n]);
  constexpr auto kMost = static_cast<std::size_t>(kMostTogether);
  for (std::size_t first = 0; first < beside.size(); first += kMost) {
    const auto group = std::span(beside).subspan(first, std::min(kMost, beside.size() - first));
    std::vector<std::int32_t> tokens;
    std::vector<ForwardState*> states;
    const auto state_of = [&](std::size_t n) { return static_cast<ModelDecodeState*>(decode_states[n]); };
    for (const std::size_t n : group) {
      tokens.push_back(ids[n]);
      states.push_back(state_of(n)->state());
    }
    within_device(1, [&] {
      Forward::Input input;
      input.batch = decode_batch(std::ssize(group));
      const auto rows = static_cast<std::size_t>(input.batch);
      tokens.resize(rows);
      states.resize(rows);
      input.ids = tokens;
      const std::vector<Probe> probes(rows);
      with_next_forward(input.batch, [&](Forward& forward) {
        ForwardReport report;
        forward.run(input, probes, states, {}, report);
        const NextTokens next = forward.predict_next(std::ssize(group));
        for (std::size_t n = 0; n < group.size(); ++n) state_of(group[n])->stand_before(next[n]);
      });
    });
  }
}

void ForwardModel::with_next_forward(std::int64_t batch, const std::function<void(Forward&)>& action) const {
  action(*make_forward(batch, 1));
}

bool ForwardModel::score_batch(const ScoreRequest& request, std::span<const std::size_t> batch,
                               std::vector<TextScores>& scores, const Job& job) const {
  const std::int64_t length = std::ssize(request.texts[batch.front()].input_ids);  // the longest comes first
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> lengths;
  std::vector<Forward::ScoredRow> rows;
  for (std::size_t b = 0; b < batch.size(); ++b) {
    const ScoredText& text = request.texts[batch[b]];
    TextScores& into = scores[batch[b]];
    ids.insert(ids.end(), text.input_ids.begin(), text.input_ids.end());
    lengths.push_back(std::ssize(text.input_ids));
    ids.resize((b + 1) * static_cast<std::size_t>(length));  // no position of the text sees what follows it
    into.resize(static_cast<std::size_t>(text.end - text.first));
    for (std::size_t n = 0; n < into.size(); ++n) {
      const std::int64_t row = static_cast<std::int64_t>(b) * length + text.first + static_cast<std::int64_t>(n);
      rows.push_back(
          {row, n < text.labels.size() ? text.labels[n] : -1, &into[n], request.distribution, request.marked});
    }
  }
  bool done = false;
  within_device(length, [&] {
    Forward::Input input;
    input.batch = std::ssize(batch);
    input.ids = ids;
    input.pruning_tolerance = request.pruning_tolerance;
    input.lengths = lengths;
    const std::vector<Probe> probes(batch.size(), Probe(nullptr, request.interventions));
    const auto forward = make_forward(input.batch, length);
    ForwardReport report;
    done = forward->run(input, probes, {}, job, report) && forward->score(rows, request.top, job);
  });
  return done;
}

std::vector<std::unique_ptr<DecodeState>> ForwardModel::prefill(std::span<const PromptRequest> prompts,
                                                                const Job& job) {
  check_prompts(prompts, config());
  const auto length_of = [&](std::size_t n) { return prompts[n].input_ids.size(); };
  const bool all_together = reads_prompts_together() && std::ranges::all_of(prompts, [](const PromptRequest& prompt) {
                              return prompt.recorder == nullptr && prompt.interventions.empty();
                            });
  std::vector<std::size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), length_of);
  std::vector<std::unique_ptr<DecodeState>> begun(prompts.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = all_together ? order.size() : first + 1;
    while (end < order.size() && length_of(order[end]) == length_of(order[first])) ++end;
    if (!prefill_group(prompts, std::span(order).subspan(first, end - first), job, begun)) return {};
    first = end;
  }
  return begun;
}

bool ForwardModel::prefill_group(std::span<const PromptRequest> prompts, std::span<const std::size_t> group,
                                 const Job& job, std::vector<std::unique_ptr<DecodeState>>& begun) {
  const std::size_t length = prompts[group.front()].input_ids.size();  // the longest comes first
  bool done = false;
  within_device(static_cast<std::int64_t>(length), [&] {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> labels;
    std::vector<std::int64_t> lengths;
    std::vector<Probe> probes;
    std::vector<ForwardState*> states;
    std::vector<std::unique_ptr<ModelDecodeState>> made;
    for (const std::size_t n : group) {
      const PromptRequest& prompt = prompts[n];
      auto decode_state = std::make_unique<ModelDecodeState>(*this, prompt);
      ids.insert(ids.end(), prompt.input_ids.begin(), prompt.input_ids.end());
      labels.insert(labels.end(), prompt.labels.begin(), prompt.labels.end());
      lengths.push_back(std::ssize(prompt.input_ids));
      ids.resize(lengths.size() * length);  // no position of the prompt sees what follows it
      labels.resize(ids.size());            // nothing is kept of those that have none
      probes.push_back(decode_state->probe(prompt.recorder));
      states.push_back(decode_state->state());
      made.push_back(std::move(decode_state));
    }
    Forward::Input input;
    input.batch = std::ssize(group);
    input.ids = ids;
    input.labels = labels;
    input.pruning_tolerance = prompts.front().pruning_tolerance;
    input.lengths = lengths;
    const auto forward = make_forward(input.batch, static_cast<std::int64_t>(length));
    ForwardReport report;
    done = !job.stopped() && forward->run(input, probes, states, job, report);
    if (!done) return;
    const NextTokens next = forward->predict_next(input.batch);
    for (std::size_t n = 0; n < made.size(); ++n) {
      made[n]->stand_before(next[n]);
      begun[group[n]] = std::move(made[n]);
    }
  });
  return done;
}

}  // namespace foxscope
