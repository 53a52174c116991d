#include "backend/model/layer/torch/mlp_torch.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/fused/fused_steps_torch.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {
namespace {

/// Rows that go through the MLP at once.
constexpr std::int64_t kMlpRows = 8192;

/// Whether SwiGLU and the norm before it are kernels'.
bool by_kernels(const TorchPass& pass, int layer, const at::Tensor& rows) {
  const ModelConfig& config = pass.config();
  const TorchLayer& weights = pass.weights(layer);
  return config.mlp == MlpKind::swiglu && config.mixture_at(layer) == nullptr && weights.mlp_in.defined() &&
         !weights.mlp_shift.defined() && !weights.mlp_in_bias.defined() && pass.norms_by_kernel(rows, weights.mlp_norm);
}

/// [rows, I] bfloat16, what the MLP's last product reads.
at::Tensor product_by_kernels(const TorchPass& pass, int layer, const at::Tensor& rows) {
  const TorchLayer& weights = pass.weights(layer);
  const at::Tensor normed = fused_norm(rows, weights.mlp_norm, pass.config().norm_epsilon);
  return fused_swiglu(at::mm(normed, weights.mlp_in.t()));
}

/// norm(x) of all rows, each mixed with that of the position before it (RWKV-7); the states take up that of the last.
at::Tensor mixed_with_previous(const TorchPass& pass, int layer, const at::Tensor& normed) {
  const at::Tensor own = normed.view({pass.batch(), pass.length(), -1});
  const at::Tensor before = previous_rows(pass, layer, 1, own);
  return (own + (before - own) * pass.weights(layer).mlp_shift).view_as(normed);
}

/// The input of the MLP's last product, [rows, I] in the dtype of matrices.
/// @param normed  norm(x) of the rows
at::Tensor units_of(const TorchPass& pass, int layer, const at::Tensor& normed) {
  const TorchLayer& weights = pass.weights(layer);
  const at::ScalarType matrix = pass.weights().matrix;
  const at::Tensor wide = composed_steps::affine(normed.to(matrix), weights.mlp_in, weights.mlp_in_bias);
  return mlp_units(pass.config(), wide).to(matrix);
}

/// The input of the MLP, norm(x) of the rows.
at::Tensor normed_rows(const TorchPass& pass, int layer, const at::Tensor& rows) {
  const TorchLayer& weights = pass.weights(layer);
  const at::Tensor normed = pass.norm(rows, weights.mlp_norm, weights.mlp_norm_bias);
  return weights.mlp_shift.defined() ? mixed_with_previous(pass, layer, normed) : normed;
}

}  // namespace

at::Tensor previous_rows(const TorchPass& pass, int layer, std::int64_t which, const at::Tensor& rows) {
  at::Tensor first = at::zeros({rows.size(0), 1, rows.size(2)}, rows.options());
  if (pass.continues()) first = pass.torch_state().layer(layer).window[which].view({1, 1, -1}).clone();
  for (std::int64_t b = 0; pass.has_states() && b < rows.size(0); ++b) {
    at::Tensor& window = pass.torch_state(b).layer(layer).window;
    // A copy of a state shares what it holds.
    window = window.defined() ? window.clone() : at::zeros({2, rows.size(2)}, rows.options());
    window[which].copy_(rows[b][rows.size(1) - 1]);
  }
  return at::cat({first, rows.slice(1, 0, rows.size(1) - 1)}, 1);
}

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
  if (config.mlp == MlpKind::swiglu) return at::silu(gate) * up;
  return at::gelu(gate, config.mlp == MlpKind::geglu ? "tanh" : "none") * up;
}

at::Tensor mlp_output(const TorchPass& pass, int layer, const at::Tensor& rows, const TakeChoice& take) {
  const ModelConfig& config = pass.config();
  const TorchLayer& weights = pass.weights(layer);
  if (by_kernels(pass, layer, rows)) {
    const at::Tensor made =
        composed_steps::affine(product_by_kernels(pass, layer, rows), weights.mlp_out, weights.mlp_out_bias);
    return composed_steps::rms_norm(made, weights.mlp_post_norm, config.norm_epsilon);
  }
  const at::Tensor normed = normed_rows(pass, layer, rows);
  at::Tensor made;
  if (weights.mlp_in.defined()) {
    made = composed_steps::affine(units_of(pass, layer, normed), weights.mlp_out, weights.mlp_out_bias);
  }
  if (config.mixture_at(layer) != nullptr) {
    if (weights.shared_gate.defined()) made = made * at::sigmoid(at::matmul(normed, weights.shared_gate.t()));
    const at::Tensor mixed = mixture_output(pass, layer, normed, take);
    made = made.defined() ? mixed + made : mixed;
  }
  return composed_steps::rms_norm(made, weights.mlp_post_norm, config.norm_epsilon);
}

void add_whole_mlp(TorchPass& pass, int layer, const TakeChoice& take) {
  const TorchLayer& weights = pass.weights(layer);
  const bool alone = pass.config().mixture_at(layer) == nullptr && weights.mlp_in.defined();
  if (!alone || weights.mlp_post_norm.defined()) return pass.add(mlp_output(pass, layer, pass.residual, take));
  pass.add_affine(by_kernels(pass, layer, pass.residual)
                      ? product_by_kernels(pass, layer, pass.residual)
                      : units_of(pass, layer, normed_rows(pass, layer, pass.residual)),
                  weights.mlp_out, weights.mlp_out_bias);
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
  // Where rows read the one before, all go together.
  const std::int64_t most = pass.weights(layer).mlp_shift.defined() ? pass.rows() : kMlpRows;
  for (std::int64_t begin = 0; begin < pass.rows(); begin += most) {
    at::Tensor rows = pass.residual.slice(0, begin, std::min(begin + most, pass.rows()));
    const at::Tensor made = mlp_output(pass, layer, rows, take);
    pass.replaces_residual() ? rows.copy_(made) : rows.add_(made, pass.config().residual_factor);
  }
  if (!experts.empty()) record_experts(pass, layer, at::cat(experts), at::cat(weights));
}

}  // namespace foxscope
