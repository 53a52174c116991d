#include "backend/model/forward_model.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace foxscope {
namespace {

/// A state, and the forward that reads one position more.
class ModelContinuation final : public Continuation {
 public:
  ModelContinuation(const ForwardModel& model, const PromptRequest& request)
      : model_(&model),
        interventions_(request.interventions),
        state_(model.make_state(interventions_, request.pruning_tolerance)),
        log_probabilities_(static_cast<std::size_t>(model.config().vocabulary_size)) {}
  ModelContinuation(const ModelContinuation& other)
      : Continuation(other),
        model_(other.model_),
        interventions_(other.interventions_),
        state_(other.state_->copy()),
        log_probabilities_(other.log_probabilities_) {}
  ModelContinuation& operator=(const ModelContinuation&) = delete;

  bool begin(const PromptRequest& request, const Job& job) {
    const auto forward = model_->make_forward(1, static_cast<std::int64_t>(request.input_ids.size()));
    Forward::Input input;
    input.ids = request.input_ids;
    input.labels = request.labels;
    input.pruning_tolerance = request.pruning_tolerance;
    const Probe probe(request.recorder, interventions_);
    ForwardReport report;
    if (job.stopped() || !forward->run(input, {&probe, 1}, state_.get(), job, report)) return false;
    forward->predict_next(log_probabilities_);
    return true;
  }

  [[nodiscard]] std::unique_ptr<Continuation> copy() const override {
    return std::make_unique<ModelContinuation>(*this);
  }
  [[nodiscard]] std::int64_t length() const override { return state_->length(); }
  [[nodiscard]] std::span<const float> log_probabilities() const override { return log_probabilities_; }
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override { return state_->held_keys(); }

  void read(std::int32_t id) override {
    check_next_token(id, length(), model_->config());
    model_->within_device(length() + 1, [&] {
      if (!next_) next_ = model_->make_forward(1, 1);
      Forward::Input input;
      input.ids = {&id, 1};
      const Probe probe(nullptr, interventions_);
      ForwardReport report;
      next_->run(input, {&probe, 1}, state_.get(), {}, report);
      next_->predict_next(log_probabilities_);
    });
  }

 private:
  const ForwardModel* model_;
  std::vector<Intervention> interventions_;
  std::unique_ptr<ForwardState> state_;
  std::unique_ptr<Forward> next_;  ///< of one position; made when it is first needed
  std::vector<float> log_probabilities_;
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
      const LossRange target = request.saliency.value_or(LossRange{0, request.length});
      done = run_with_saliency(input, target, probes, job, report);
    } else {
      done = make_forward(request.batch, request.length)->run(input, probes, nullptr, job, report);
    }
  });
  if (!done) return std::nullopt;
  return report;
}

std::unique_ptr<Continuation> ForwardModel::begin(const PromptRequest& request, const Job& job) {
  check_prompt(request, config());
  auto continuation = std::make_unique<ModelContinuation>(*this, request);
  bool done = false;
  within_device(static_cast<std::int64_t>(request.input_ids.size()), [&] { done = continuation->begin(request, job); });
  if (!done) return nullptr;
  return continuation;
}

}  // namespace foxscope
