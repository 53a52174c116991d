#include "backend/model/layer/torch/rwkv7_torch.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/mlp_torch.h"

namespace foxscope {

bool TorchRwkv7Steps::project(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  const LinearMixer& mixer = *pass_.config().linear;
  const std::int64_t hidden = pass_.config().hidden_size;
  const at::ScalarType matrix = pass_.weights().matrix;
  if (weights.pre_norm.defined()) {
    pass_.residual = pass_.norm(pass_.residual, weights.pre_norm, weights.pre_norm_bias);
  }
  const at::Tensor own = pass_.norm(pass_.residual, weights.attention_norm, weights.attention_norm_bias)
                             .view({pass_.batch(), pass_.length(), hidden});
  const at::Tensor change = previous_rows(pass_, layer, 0, own) - own;
  const auto part = [&](std::int64_t which) { return own + change * weights.shift[which]; };
  const auto projected = [&](std::int64_t which, std::int64_t first) {
    const at::Tensor rows = part(which).flatten(0, 1).to(matrix);
    return composed_steps::linear_to_float(rows, weights.projection.slice(0, first * hidden, (first + 1) * hidden))
        .view_as(own);
  };
  const auto heads = [&](const at::Tensor& x) { return x.unflatten(2, {mixer.heads, mixer.key_dim}).transpose(1, 2); };
  const at::Tensor low = at::matmul(part(1), weights.decay_down.t()).tanh();
  const at::Tensor logit = at::matmul(low, weights.decay_up.t()) + weights.decay_bias;
  const at::Tensor a =
      at::sigmoid(at::matmul(at::matmul(part(4), weights.erase_down.t()), weights.erase_up.t()) + weights.erase_bias);
  const at::Tensor key = projected(2, 1);
  at::Tensor value = projected(3, 2);
  if (layer == 0) {
    first_values_ = value;
  } else {
    const at::Tensor raised = at::matmul(at::matmul(part(3), weights.value_down.t()), weights.value_up.t());
    value = value + (first_values_ - value) * at::sigmoid(raised + weights.value_bias);
  }
  gate_ = at::matmul(at::sigmoid(at::matmul(part(5), weights.gate_down.t())), weights.output_gate.t());
  const at::Tensor scaled = heads(key * weights.unit_key);
  const at::Tensor unit = scaled * (scaled.square().sum(-1, true) + mixer.unit_key_epsilon).rsqrt();
  operands_ = {};
  operands_.heads = mixer.heads;
  operands_.query = heads(projected(0, 0));
  operands_.key = heads(key * (1 + (a - 1) * weights.key_share));
  operands_.value = heads(value);
  operands_.log_decay = heads(at::sigmoid(logit.to(at::kDouble)) * -std::exp(-0.5));
  operands_.erase_read = -unit;
  operands_.erase_write = unit * heads(a);
  return true;
}

bool TorchRwkv7Steps::project_output(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  const LinearMixer& mixer = *pass_.config().linear;
  const LinearOperands made = std::exchange(operands_, {});
  const auto by_head = [&](const at::Tensor& x) { return x.view({mixer.heads, mixer.key_dim}); };
  const auto positions_first = [](const at::Tensor& x) { return x.transpose(1, 2); };  // [B, n, H, d]
  at::Tensor output = composed_steps::layer_norm(positions_first(take_mixed()), by_head(weights.output_norm),
                                                 by_head(weights.output_norm_bias), mixer.norm_epsilon);
  const at::Tensor sum =
      (positions_first(made.query) * positions_first(made.key) * by_head(weights.bonus)).sum(-1, true);
  output = ((output + sum * positions_first(made.value)).flatten(2) * std::exchange(gate_, {})).flatten(0, 1);
  pass_.cut_heads(layer, output);
  pass_.add(composed_steps::affine(output.to(pass_.weights().matrix), weights.output, weights.output_bias));
  return !pass_.job().stopped();
}

}  // namespace foxscope
