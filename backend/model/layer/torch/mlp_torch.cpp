#include "backend/model/layer/torch/mlp_torch.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {
namespace {

/// Rows that go through the MLP at once.
constexpr std::int64_t kMlpRows = 8192;

}  // namespace

at::Tensor mlp_units(const ModelConfig& config, const at::Tensor& wide) {
  if (!is_gated(config.mlp)) {
    if (config.mlp == MlpKind::relu_squared) return at::relu(wide).square();
    return at::gelu(wide, config.mlp == MlpKind::gelu ? "none" : "tanh");
  }
  const std::int64_t inner = wide.size(1) / 2;
  const at::Tensor gate = wide.slice(1, 0, inner);
  const at::Tensor up = wide.slice(1, inner);
  if (config.mlp == MlpKind::clamped) {
    constexpr double kSlope = 1.702;
    const at::Tensor below = gate.clamp_max(config.mlp_limit);
    return (up.clamp(-config.mlp_limit, config.mlp_limit) + 1) * below * at::sigmoid(below * kSlope);
  }
  return (config.mlp == MlpKind::swiglu ? at::silu(gate) : at::gelu(gate, "tanh")) * up;
}

at::Tensor mlp_output(const TorchPass& pass, int layer, const at::Tensor& rows, const TakeChoice& take) {
  const ModelConfig& config = pass.config();
  const TorchLayer& weights = pass.weights(layer);
  const at::ScalarType matrix = pass.weights().matrix;
  const at::Tensor normed = pass.norm(rows, weights.mlp_norm, weights.mlp_norm_bias);
  at::Tensor made;
  if (weights.mlp_in.defined()) {
    const at::Tensor wide = composed_steps::affine(normed.to(matrix), weights.mlp_in, weights.mlp_in_bias);
    made = composed_steps::affine(mlp_units(config, wide).to(matrix), weights.mlp_out, weights.mlp_out_bias);
  }
  if (config.mixture_at(layer) != nullptr) {
    if (weights.shared_gate.defined()) made = made * at::sigmoid(at::matmul(normed, weights.shared_gate.t()));
    const at::Tensor mixed = mixture_output(pass, layer, normed, take);
    made = made.defined() ? mixed + made : mixed;
  }
  return composed_steps::rms_norm(made, weights.mlp_post_norm, config.norm_epsilon);
}

void add_mlp(TorchPass& pass, int layer) {
  std::vector<at::Tensor> experts;
  std::vector<at::Tensor> weights;
  const TakeChoice take = [&](const at::Tensor& chosen, const at::Tensor& of_router) {
    // As many blocks were taken before as are complete.
    const std::int64_t first = static_cast<std::int64_t>(experts.size()) * kMlpRows;
    experts.push_back(chosen);
    weights.push_back(without_dropped(pass, layer, first, chosen, of_router));
    return weights.back();
  };
  for (std::int64_t begin = 0; begin < pass.rows(); begin += kMlpRows) {
    at::Tensor rows = pass.residual.slice(0, begin, std::min(begin + kMlpRows, pass.rows()));
    rows.add_(mlp_output(pass, layer, rows, take), pass.config().residual_factor);
  }
  if (!experts.empty()) record_experts(pass, layer, at::cat(experts), at::cat(weights));
}

}  // namespace foxscope
