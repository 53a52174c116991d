#include "backend/model/backward/gradient_forward_torch.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "backend/model/backward/differentiable_forward_torch.h"
#include "backend/model/backward/fused_gradient_forward_torch.h"
#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "kernels/cuda/linear/linear_chunks.h"

namespace foxscope {
namespace {

/// Autograd's graph of a layer, in units of what the written backward pass keeps.
constexpr std::int64_t kAutogradFactor = 4;

/// Bytes of a layer and position that KeptResults holds beside x as it enters.
std::int64_t kept_bytes(const ModelConfig& config, bool on_gpu, DType dtype) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  // x with what the mixer adds; with what the MLP adds it is x as it enters the next layer.
  std::int64_t bytes = config.has_mlp() ? 4 * config.hidden_size : 0;
  if (!config.linear) return bytes;
  const LinearMixer& mixer = *config.linear;
  const bool fused = on_gpu && dtype == DType::bfloat16;
  const bool keeps_projection = fused ? mixer.convolution > 0 && !mixer.is_selective() : !on_gpu;
  if (keeps_projection) bytes += size * LinearColumns(mixer).precise;
  if (!fused || (!mixer.is_delta_rule() && !mixer.decays_by_channel())) return bytes;
  constexpr std::int64_t kChunk = kernels::cuda::kLinearChunk;
  const std::int64_t matrices =
      mixer.is_delta_rule() ? mixer.output_size() : mixer.heads * kChunk + mixer.query_size() + mixer.key_size();
  return bytes + size * (matrices + mixer.state_size() / kChunk + mixer.output_size());
}

}  // namespace

GradientForward::GradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                                 const at::Tensor& loss_weights, const GradientOptions& options)
    : TorchForward(weights, batch, length), loss_weights_(loss_weights.to(weights.place)), options_(options) {
  gate_sums_.resize(static_cast<std::size_t>(weights.config.layers));
  if (options_.weights != nullptr) return;
  none_.layers.resize(static_cast<std::size_t>(weights.config.layers));
  options_.weights = &none_;
}

PassBytes GradientForward::bytes(const ModelConfig& config, bool on_gpu, DType dtype, Recompute recompute) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t projected = config.query_size() + 2 * config.key_size();
  const std::int64_t gate = config.output_gate ? config.query_size() : 0;
  const std::int64_t gates = ProjectionColumns(config).count - projected;
  const bool fused = !config.linear && config.norm == NormKind::rms && config.mlp == MlpKind::swiglu &&
                     config.pre_norm && !config.post_norm;
  const std::int64_t wide = (is_gated(config.mlp) ? 2 : 1) * config.widest_intermediate();
  const std::int64_t entered = 4 * config.hidden_size;
  const std::int64_t layer = size * (projected + gate + config.query_size() + wide) + entered + 4 * gates +
                             std::int64_t{config.heads} * (8 + 4);
  const std::int64_t own = size * (3 * projected + gate + 2 * wide) + 5 * entered;
  const std::int64_t whole = fused ? layer : kAutogradFactor * layer;
  // The gradient of a block of logits.
  PassBytes bytes{on_gpu ? kDeviceLogitElements * 4 : 0, own};
  // Arrays that are computed again exist for one layer at a time.
  if (recompute == Recompute::none) {
    bytes.per_token += config.layers * whole;
  } else if (fused && recompute == Recompute::mlp) {
    bytes.per_token += config.layers * layer - (config.layers - 1) * size * wide;
  } else {
    bytes.per_token += config.layers * entered + whole;
    if (recompute == Recompute::mlp) bytes.per_token += (config.layers - 1) * kept_bytes(config, on_gpu, dtype);
  }
  return bytes;
}

bool GradientForward::run_forward(const Input& input, std::span<const Probe> probes, const Job& job,
                                  ForwardReport& report) {
  const c10::InferenceMode normal(false);
  const at::AutoGradMode graph(uses_autograd());
  return run(input, probes, {}, job, report);
}

std::int64_t GradientForward::logit_rows() const {
  const std::int64_t elements = pass_.weights().on_gpu() ? kGpuGradientElements : kCpuGradientElements;
  return rows_of_block(elements, pass_.weights().padded_head.size(0), rows());
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
