#include "backend/model/cpu_continuation.h"

#include <cstddef>

namespace foxscope {

CpuContinuation::CpuContinuation(const ModelConfig& config, const ModelWeights& weights, const PromptRequest& request)
    : config_(&config),
      interventions_(request.interventions),
      state_(config, request.interventions, request.pruning_tolerance),
      next_(config, weights, 1),
      log_probabilities_(static_cast<std::size_t>(config.vocabulary_size)) {}

std::unique_ptr<CpuContinuation> CpuContinuation::begin(const ModelConfig& config, const ModelWeights& weights,
                                                        const PromptRequest& request, const Job& job) {
  std::unique_ptr<CpuContinuation> continuation(new CpuContinuation(config, weights, request));
  CpuForward forward(config, weights, static_cast<std::int64_t>(request.input_ids.size()));
  CpuForward::Input input;
  input.ids = request.input_ids;
  input.labels = request.labels;
  input.pruning_tolerance = request.pruning_tolerance;
  const Probe probe(request.recorder, request.interventions);
  ForwardReport report;
  if (job.stopped() || !forward.run(input, probe, &continuation->state_, job, report)) return nullptr;
  forward.predict_next(continuation->log_probabilities_);
  return continuation;
}

void CpuContinuation::read(std::int32_t id) {
  check_next_token(id, length(), *config_);
  CpuForward::Input input;
  input.ids = {&id, 1};
  ForwardReport report;
  next_.run(input, Probe(nullptr, interventions_), &state_, {}, report);
  next_.predict_next(log_probabilities_);
}

}  // namespace foxscope
