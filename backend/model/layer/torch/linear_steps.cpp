#include <algorithm>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/fused_linear_torch.h"
#include "backend/model/layer/torch/linear_steps_torch.h"

namespace foxscope::linear_steps {
namespace {

using composed_steps::affine;

/// Of [B, n, heads d], [B, heads, n, d].
at::Tensor heads_first(const at::Tensor& x, std::int64_t dim) {
  return x.unflatten(2, {x.size(2) / dim, dim}).transpose(1, 2);
}

bool all_silu(const LinearMixer& mixer) {
  if (mixer.selects()) return mixer.value_activation == LinearActivation::silu;
  return mixer.query_activation == LinearActivation::silu && mixer.key_activation == LinearActivation::silu &&
         mixer.value_activation == LinearActivation::silu;
}

/// Whether a projection is kept in bfloat16: one whose parts all go through kernels, which read either.
bool rounds_projection(const LinearMixer& mixer, const TorchLayer& weights, const at::Tensor& normed) {
  return normed.is_cuda() && normed.scalar_type() == at::kBFloat16 && !at::GradMode::is_enabled() &&
         !weights.projection_bias.defined() && !mixer.selects() && mixer.convolution > 0 && all_silu(mixer) &&
         fused_convolution_takes(normed, at::Tensor(), weights.convolution);
}

/// [layers, H d]: HGRN2's bound of a layer's decays, 0 in the first.
at::Tensor lower_bound(const TorchWeights& weights, int layer) {
  const at::Tensor shares = at::softmax(weights.lower_bounds, 0);
  return (shares.cumsum(0) - shares[0])[layer];
}

/// log alpha [B, n, H] or [B, n, key_heads d] float64, and what goes with it of keys or steps.
/// @param gates  [B, n, ...] float32 the projection's precise columns; where the mixer selects, logits of steps
void put_decay(const TorchWeights& weights, int layer, const at::Tensor& gates, at::Tensor& key,
               LinearOperands& operands) {
  const LinearMixer& mixer = *weights.config.linear;
  const LinearColumns columns(mixer);
  const TorchLayer& of_layer = weights.layers[static_cast<std::size_t>(layer)];
  const auto gate = [&](std::int64_t first, std::int64_t size) {
    return gates.slice(2, first - columns.precise, first - columns.precise + size);
  };
  at::Tensor log_decay;
  if (mixer.decay == LinearDecay::rates) {
    const at::Tensor step = at::softplus(gates + of_layer.decay_bias);
    const at::Tensor rates = of_layer.decay_rate.exp();
    const at::Tensor mean = rates.mean(1).clamp_min(std::numeric_limits<float>::min());
    operands.rate = rates / mean.unsqueeze(1);
    operands.beta = step.transpose(1, 2);
    log_decay = -(step.to(at::kDouble) * mean.to(at::kDouble));
  } else if (mixer.decay == LinearDecay::rate) {
    at::Tensor step = at::softplus(gate(columns.decay, mixer.heads) + of_layer.decay_bias);
    if (mixer.beta == LinearBeta::step) step = step.clamp(mixer.lowest_step, mixer.highest_step);
    if (mixer.beta == LinearBeta::step) operands.beta = step.transpose(1, 2);
    log_decay = -(step * of_layer.decay_rate.exp()).to(at::kDouble);
  } else if (mixer.decay == LinearDecay::of_keys) {
    const at::Tensor logit = key;
    key = at::sigmoid(-logit);
    log_decay = at::log_sigmoid(logit.to(at::kDouble));
    if (mixer.lower_bound && layer > 0) {
      const at::Tensor bound = lower_bound(weights, layer);
      key = (1 - bound) * key;
      log_decay = (bound + (1 - bound) * at::sigmoid(logit)).to(at::kDouble).log();
    }
  } else if (mixer.decay == LinearDecay::low_rank) {
    const at::Tensor logit =
        at::matmul(gate(columns.decay, mixer.decay_rank), of_layer.decay_up.t()) + of_layer.decay_bias;
    log_decay = at::log_sigmoid(logit.to(at::kDouble)) * mixer.decay_factor;
    if (mixer.lowest_log_decay) log_decay = log_decay.clamp_min(*mixer.lowest_log_decay);
  }
  if (log_decay.defined()) {
    operands.log_decay = mixer.decays_by_channel() ? heads_first(log_decay, mixer.key_dim) : log_decay.transpose(1, 2);
  }
  if (mixer.beta == LinearBeta::sigmoid || mixer.beta == LinearBeta::twice_sigmoid) {
    const at::Tensor share = at::sigmoid(gate(columns.beta, mixer.heads)).transpose(1, 2);
    operands.beta = mixer.beta == LinearBeta::sigmoid ? share : 2 * share;
  }
}

}  // namespace

Projection project(const TorchWeights& weights, int layer, std::int64_t batch, const at::Tensor& normed,
                   const at::Tensor& gates, const at::Tensor& window) {
  const LinearMixer& mixer = *weights.config.linear;
  const LinearColumns columns(mixer);
  const TorchLayer& of_layer = weights.layers[static_cast<std::size_t>(layer)];
  const std::int64_t length = normed.size(0) / batch;
  const at::Tensor projected =
      (rounds_projection(mixer, of_layer, normed) ? at::mm(normed, of_layer.projection.t())
                                                  : affine(normed, of_layer.projection, of_layer.projection_bias))
          .view({batch, length, -1});
  Projection result;
  if (mixer.gate != LinearGate::none) result.gate = projected.slice(2, 0, columns.convolved);
  at::Tensor mixed = projected.slice(2, columns.convolved);
  bool activated = false;
  if (mixer.convolution > 0) {
    const std::int64_t before = mixer.convolution - 1;
    const at::Tensor seen =
        window.defined() ? window : at::zeros({batch, before, mixed.size(2)}, mixed.options().dtype(at::kFloat));
    const at::Tensor last = mixed.slice(1, std::max(length - before, std::int64_t{0})).to(at::kFloat);
    result.window = length < before ? at::cat({seen.slice(1, length), last}, 1) : last.clone();
    activated = all_silu(mixer) && fused_convolution_takes(mixed, window, of_layer.convolution);
    mixed = activated ? fused_convolution(mixed, window, of_layer.convolution, of_layer.convolution_bias)
                      : composed_convolution(mixed, seen, of_layer.convolution, of_layer.convolution_bias);
  }
  const auto part = [&](std::int64_t first, std::int64_t size, LinearActivation activation) {
    const std::int64_t begin = first - columns.convolved;
    return composed_activation(mixed.slice(2, begin, begin + size), activated ? LinearActivation::none : activation);
  };
  LinearOperands& operands = result.operands;
  if (mixer.selects()) {
    const at::Tensor input = part(columns.value, mixer.value_size(), mixer.value_activation).to(at::kFloat);
    const at::Tensor selected = at::matmul(input, of_layer.selection.t());
    const auto selection = [&](std::int64_t first, std::int64_t size) {
      return heads_first(selected.slice(2, first, first + size), mixer.key_dim);
    };
    at::Tensor unused;
    put_decay(weights, layer, at::matmul(selected.slice(2, 0, mixer.decay_rank), of_layer.decay_up.t()), unused,
              operands);
    operands.heads = mixer.heads;
    operands.key = selection(mixer.decay_rank, mixer.key_size());
    operands.query = selection(mixer.decay_rank + mixer.key_size(), mixer.query_size());
    operands.value = heads_first(input, mixer.value_dim);
    return result;
  }
  at::Tensor key = part(columns.key, mixer.key_size(), mixer.key_activation);
  put_decay(weights, layer, gates.view({batch, length, -1}), key, operands);
  operands.heads = mixer.heads;
  operands.delta_rule = mixer.is_delta_rule();
  const auto normed_heads = [&](const at::Tensor& x, double factor) {
    if (mixer.norm == LinearNorm::l2 && fused_unit_heads_takes(x, mixer.key_dim)) {
      return fused_unit_heads(x, mixer.key_dim, factor);
    }
    const at::Tensor heads = composed_linear_norm(heads_first(x, mixer.key_dim), mixer.norm);
    return factor == 1 ? heads : heads * factor;
  };
  operands.query = normed_heads(part(columns.query, mixer.query_size(), mixer.query_activation), mixer.query_factor);
  operands.key = normed_heads(key, 1);
  operands.value = heads_first(part(columns.value, mixer.value_size(), mixer.value_activation), mixer.value_dim);
  return result;
}

at::Tensor finish(const TorchWeights& weights, int layer, const at::Tensor& mixed, const Projection& projection) {
  const LinearMixer& mixer = *weights.config.linear;
  const TorchLayer& of_layer = weights.layers[static_cast<std::size_t>(layer)];
  const LinearOutput parts{mixed, projection.operands.value, projection.gate,
                           mixer.skip != LinearSkip::none ? of_layer.skip : at::Tensor(), of_layer.output_norm};
  if (fused_linear_output_takes(mixer, parts, weights.matrix)) return fused_linear_output(mixer, parts);
  at::Tensor output = mixed.to(at::kFloat).transpose(1, 2);  // [B, n, H, d_v]
  if (mixer.skip != LinearSkip::none) {
    const at::Tensor factor = of_layer.skip.view({mixer.heads, mixer.skip == LinearSkip::head ? 1 : mixer.value_dim});
    output = output + projection.operands.value.transpose(1, 2) * factor;
  }
  output = output.flatten(2, 3);
  const at::Tensor gate = projection.gate.defined() ? projection.gate.to(at::kFloat) : projection.gate;
  if (mixer.gate == LinearGate::before_norm) output = output * at::silu(gate);
  if (mixer.norm_size > 0) {
    output = composed_steps::rms_norm(output.unflatten(2, {output.size(2) / mixer.norm_size, mixer.norm_size}),
                                      of_layer.output_norm.view({-1, mixer.norm_size}), mixer.norm_epsilon)
                 .flatten(2, 3);
  }
  if (mixer.gate == LinearGate::after_norm) output = output * at::silu(gate);
  return output.flatten(0, 1);
}

}  // namespace foxscope::linear_steps
