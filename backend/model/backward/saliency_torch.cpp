#include "backend/model/backward/saliency_torch.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "backend/base/index.h"
#include "backend/model/backward/gradient_forward_torch.h"

namespace foxscope {
namespace {

/// Hands the gradients by a layer's log f to the recorders.
/// @param gradient  [B, H, n]
void record_gradient(std::span<const Probe> probes, int layer, const at::Tensor& gradient) {
  const at::Tensor values = gradient.to(at::kCPU, at::kFloat).contiguous();
  const std::int64_t size = values[0].numel();
  for (std::size_t b = 0; b < probes.size(); ++b) {
    if (!probes[b].keeps(Keep::saliency)) continue;
    const float* const of_sequence = values.const_data_ptr<float>() + static_cast<std::int64_t>(b) * size;
    std::copy_n(of_sequence, size, probes[b].recorder()->log_forget_gradient().begin() + layer * size);
  }
}

}  // namespace

bool run_with_saliency(const TorchWeights& weights, const Forward::Input& input, const Range& target,
                       std::span<const Probe> probes, const Job& job, ForwardReport& report) {
  const c10::InferenceMode normal(false);
  const std::int64_t length = static_cast<std::int64_t>(input.ids.size()) / input.batch;
  const at::Tensor grad_losses = at::zeros({input.batch, length}, at::kFloat);
  grad_losses.slice(1, target.begin, target.end).fill_(1.0 / static_cast<double>(target.size()));
  const auto forward = make_gradient_forward(weights, input.batch, length, grad_losses.flatten(), {.log_gates = true});
  if (!forward->run_forward(input, probes, job, report)) return false;
  const std::optional<Gradients> gradients = forward->backward(job);
  if (!gradients) return false;
  for (int layer = 0; layer < weights.config.layers; ++layer) {
    record_gradient(probes, layer, gradients->log_gates[index_of(layer)]);
  }
  return true;
}

}  // namespace foxscope
