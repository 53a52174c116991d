#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "backend/model/backward/differentiable_forward_torch.h"
#include "backend/model/backward/fused_gradient_forward_torch.h"
#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {
namespace {

/// Numbers of a block of logits at once, on a CPU and on a GPU.
constexpr std::int64_t kCpuLogits = std::int64_t{1} << 22;
constexpr std::int64_t kGpuLogits = std::int64_t{1} << 25;

}  // namespace

GradientForward::GradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                                 const at::Tensor& loss_weights, const GradientOptions& options)
    : TorchForward(weights, batch, length), loss_weights_(loss_weights.to(weights.place)), options_(options) {
  gate_sums_.resize(static_cast<std::size_t>(weights.config.layers));
  if (options_.weights != nullptr) return;
  none_.layers.resize(static_cast<std::size_t>(weights.config.layers));
  options_.weights = &none_;
}

bool GradientForward::run_forward(const Input& input, std::span<const Probe> probes, const Job& job,
                                  ForwardReport& report) {
  const c10::InferenceMode normal(false);
  const at::AutoGradMode graph(uses_autograd());
  return run(input, probes, {}, job, report);
}

std::int64_t GradientForward::logit_rows() const {
  const std::int64_t numbers = pass_.weights().on_gpu() ? kGpuLogits : kCpuLogits;
  return std::clamp(numbers / pass_.weights().padded_head.size(0), std::int64_t{1}, rows());
}

void GradientForward::finish_losses(const at::Tensor& loss) {
  losses_ = loss.view({batch(), length()});
  loss_ = (loss.to(at::kDouble) * loss_weights_).sum();
  record_losses(pass_, loss);
}

void GradientForward::report_backward(const Job& job, int layers_done) const {
  job.tell({layers_done, config().layers, "layers", "backward"});
}

std::unique_ptr<GradientForward> make_gradient_forward(const TorchWeights& weights, std::int64_t batch,
                                                       std::int64_t length, const at::Tensor& loss_weights,
                                                       const GradientOptions& options) {
  if (FusedGradientForward::takes(weights)) {
    return std::make_unique<FusedGradientForward>(weights, batch, length, loss_weights, options);
  }
  return std::make_unique<DifferentiableForward>(weights, batch, length, loss_weights, options);
}

}  // namespace foxscope
