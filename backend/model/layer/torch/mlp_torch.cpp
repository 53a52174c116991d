#include "backend/model/layer/torch/mlp_torch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"

namespace foxscope {
namespace {

/// Rows that go through the MLP at once.
constexpr std::int64_t kMlpRows = 8192;

}  // namespace

at::Tensor mlp_output(const TorchPass& pass, int layer, const at::Tensor& rows) {
  const ModelConfig& config = pass.config();
  const TorchLayer& weights = pass.weights(layer);
  const at::ScalarType matrix = pass.weights().matrix;
  const at::Tensor normed = pass.norm(rows, weights.mlp_norm, weights.mlp_norm_bias).to(matrix);
  const at::Tensor wide = composed_steps::affine(normed, weights.mlp_in, weights.mlp_in_bias);
  at::Tensor units;
  if (is_gated(config.mlp)) {
    const std::int64_t inner = config.intermediate_of(layer);
    const at::Tensor gate = wide.slice(1, 0, inner);
    units = (config.mlp == MlpKind::swiglu ? at::silu(gate) : at::gelu(gate, "tanh")) * wide.slice(1, inner);
  } else {
    units = at::gelu(wide, config.mlp == MlpKind::gelu ? "none" : "tanh");
  }
  const at::Tensor made = composed_steps::affine(units.to(matrix), weights.mlp_out, weights.mlp_out_bias);
  return composed_steps::rms_norm(made, weights.mlp_post_norm, config.norm_epsilon);
}

void add_mlp(TorchPass& pass, int layer) {
  for (std::int64_t begin = 0; begin < pass.rows(); begin += kMlpRows) {
    at::Tensor rows = pass.residual.slice(0, begin, std::min(begin + kMlpRows, pass.rows()));
    rows += mlp_output(pass, layer, rows);
  }
}

}  // namespace foxscope
