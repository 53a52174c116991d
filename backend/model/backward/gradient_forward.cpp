#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "backend/model/backward/differentiable_forward_torch.h"
#include "backend/model/backward/fused_gradient_forward_torch.h"
#include "backend/model/backward/gradient_forward_torch.h"

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

AttentionTensors GradientForward::attention_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                               const at::Tensor& cumulative) const {
  AttentionTensors attention;
  attention.query = query;
  attention.key = key;
  attention.value = value;
  attention.cumulative = cumulative;
  attention.scale = 1 / std::sqrt(static_cast<double>(config().head_dim));
  attention.window_size = config().window_size;
  attention.pruning_tolerance = input().pruning_tolerance;
  return attention;
}

void GradientForward::report_attention(const AttentionDone& done) {
  report().attention_kernel = done.kernel;
  report().attention_blocks += done.blocks;
  report().skipped_blocks += done.skipped_blocks;
}

std::int64_t GradientForward::logit_rows() const {
  const std::int64_t numbers = weights().on_gpu() ? kGpuLogits : kCpuLogits;
  return std::clamp(numbers / weights().padded_head.size(0), std::int64_t{1}, rows());
}

void GradientForward::keep_normalizers(int layer, const at::Tensor& log_normalizer, const at::Tensor& without_gate) {
  for (std::int64_t b = 0; b < batch(); ++b) {
    Recorder* const into = recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::rows)) {
      keep(log_normalizer[b], [into, layer] { return into->log_normalizer(layer).data(); });
    }
    if (into->keeps(Keep::ungated)) {
      keep(without_gate[b], [into, layer] { return into->log_normalizer_without_gate(layer).data(); });
    }
  }
}

void GradientForward::sum_gates(int layer) {
  TorchForward::sum_gates(layer);
  if (!config().is_linear(layer)) keep_gate_sum(layer);
}

void GradientForward::keep_gate_sum(int layer) {
  if (!cumulative_.defined()) return;
  // f_0 is in no F.
  gate_sums_[static_cast<std::size_t>(layer)] = (cumulative_.select(2, length() - 1) - cumulative_.select(2, 0)).sum(0);
}

void GradientForward::finish_losses(const at::Tensor& loss) {
  losses_ = loss.view({batch(), length()});
  loss_ = (loss.to(at::kDouble) * loss_weights_).sum();
  keep_losses(loss);
}

void GradientForward::tell_back(const Job& job, int layers_done) const {
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
