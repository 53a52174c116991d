#include "backend/model/causal_lm.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/base/device_name.h"
#include "backend/base/error.h"
#include "backend/model/forward_library.h"
#include "backend/model/interventions.h"

namespace foxscope {

std::string Device::name() const { return cuda ? fmt::format("cuda:{}", index) : "cpu"; }

Device Device::parse(const std::string& name) {
  const std::optional<int> gpu = gpu_named(name, {[] { return forward_library().cuda_is_built(); },
                                                  [] { return forward_library().cuda_device_count(); }, "CUDA device"});
  return gpu ? Device{true, *gpu} : Device{};
}

void check_dtype(const Device& device, DType dtype) {
  if (device.cuda || dtype == DType::float32) return;
  throw UsageError("--dtype bfloat16 needs --device cuda: on a CPU models run in float32");
}

std::unique_ptr<CausalLM> CausalLM::load(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                         const Job& job) {
  check_dtype(device, dtype);
  return forward_library().load(checkpoint, device, dtype, job);
}

void check_request(const ForwardRequest& request, std::span<Recorder* const> recorders, const ModelConfig& config) {
  if (request.batch < 1 || request.length < 1) {
    throw ShapeError(fmt::format("[forward] {} sequences of {} positions: there must be at least one of each",
                                 request.batch, request.length));
  }
  const auto check = [](const char* what, std::size_t found, std::int64_t wanted) {
    if (static_cast<std::int64_t>(found) == wanted) return;
    throw ShapeError(fmt::format("[forward] {}: expected {}, got {}", what, wanted, found));
  };
  check("input_ids", request.input_ids.size(), request.batch * request.length);
  check("labels", request.labels.size(), request.batch * request.length);
  check("recorders", recorders.size(), request.batch);
  const ForwardRequest::Start& start = request.start;
  if (start.layer < 0 || start.layer >= config.layers) {
    throw ShapeError(fmt::format("[forward] start: there is no layer {} of {}", start.layer, config.layers));
  }
  const bool known = start.layer > 0 || !start.hidden.empty();
  check("start.hidden", start.hidden.size(), known ? request.batch * request.length * config.hidden_size : 0);
  for (const Recorder* recorder : recorders) {
    const TraceInfo& info = recorder->info();
    if (info.layers != config.layers || info.heads != config.heads || info.key_heads != config.key_heads ||
        info.head_dim != config.head_dim || info.length != request.length) {
      throw ShapeError("[forward] recorders: made for another model or another length");
    }
  }
  for (const auto& [what, ids] : {std::pair{"input_ids", request.input_ids}, std::pair{"labels", request.labels}}) {
    for (std::size_t n = 0; n < ids.size(); ++n) {
      if (ids[n] >= 0 && ids[n] < config.vocabulary_size) continue;
      throw UsageError(
          fmt::format("token id {} at position {} of the {} is outside the model's vocabulary of {}: use "
                      "the tokenizer that belongs to the model",
                      ids[n], static_cast<std::int64_t>(n) % request.length, what, config.vocabulary_size));
    }
  }
  if (!(request.pruning_tolerance >= 0 && request.pruning_tolerance < 1)) {
    throw UsageError(fmt::format("--pruning {}: it must be at least 0 and below 1", request.pruning_tolerance));
  }
  check_length(request.length, config);
  check_interventions(request.interventions, config, request.length);
}

void check_length(std::int64_t length, const ModelConfig& config) {
  if (config.learned_positions == 0 || length <= config.learned_positions) return;
  throw UsageError(
      fmt::format("{} tokens are more than the model has positions for, which is {}: use --limit {}, or a "
                  "shorter text",
                  length, config.learned_positions, config.learned_positions));
}

}  // namespace foxscope
