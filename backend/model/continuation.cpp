#include "backend/model/continuation.h"

#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/interventions.h"

namespace foxscope {

void check_prompt(const PromptRequest& request, const ModelConfig& config) {
  const auto length = static_cast<std::int64_t>(request.input_ids.size());
  if (length < 1) throw ShapeError("[begin] input_ids: there must be at least one");
  if (request.recorder != nullptr &&
      (request.recorder->info().length != length || request.labels.size() != request.input_ids.size())) {
    throw ShapeError(fmt::format("[begin] recorder and labels: expected {} positions", length));
  }
  for (std::size_t n = 0; n < request.input_ids.size(); ++n) {
    const std::int32_t id = request.input_ids[n];
    if (id >= 0 && id < config.vocabulary_size) continue;
    throw UsageError(
        fmt::format("token id {} at position {} of the prompt is outside the model's vocabulary of {}: use the "
                    "tokenizer that belongs to the model",
                    id, n, config.vocabulary_size));
  }
  if (!(request.pruning_tolerance >= 0 && request.pruning_tolerance < 1)) {
    throw UsageError(fmt::format("--pruning {}: it must be at least 0 and below 1", request.pruning_tolerance));
  }
  check_length(length, config);
  check_continued(request.interventions, config);
}

void check_continued(std::span<const Intervention> interventions, const ModelConfig& config) {
  for (const Intervention& intervention : interventions) {
    if (intervention.kind != Intervention::Kind::mean) continue;
    throw UsageError(fmt::format(
        "--intervene '{}': a text that is being continued has no mean gate yet: use constant=f", intervention.text()));
  }
  // zero@p may come true later.
  check_interventions(interventions, config, std::numeric_limits<std::int64_t>::max());
}

void check_next_token(std::int32_t id, std::int64_t position, const ModelConfig& config) {
  check_length(position + 1, config);
  if (id >= 0 && id < config.vocabulary_size) return;
  throw UsageError(
      fmt::format("token id {} is outside the model's vocabulary of {}: use the tokenizer that belongs to the model",
                  id, config.vocabulary_size));
}

std::int64_t continuation_bytes_per_token(const ModelConfig& config, DType dtype) {
  const std::int64_t gates = 8 * static_cast<std::int64_t>(config.heads);
  return config.layers * (2 * config.key_size() * static_cast<std::int64_t>(size_of(dtype)) + gates);
}

}  // namespace foxscope
