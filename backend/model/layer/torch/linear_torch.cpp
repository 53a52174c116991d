#include "backend/model/layer/torch/linear_torch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "backend/base/index.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/fused/fused_linear_steps_torch.h"
#include "backend/model/layer/torch/fused/fused_linear_torch.h"
#include "backend/model/layer/torch/fused/fused_steps_torch.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {
namespace {

/// Nats that a log decay may be above 0 by rounding.
constexpr double kDecayRounding = 1e-4;

/// [B, n, heads d] as [B, heads, n, d].
at::Tensor heads_first(const at::Tensor& x, std::int64_t dim) {
  return x.unflatten(2, {x.size(2) / dim, dim}).transpose(1, 2);
}

bool all_silu(const LinearMixer& mixer) {
  if (mixer.is_selective()) return mixer.value_activation == LinearActivation::silu;
  return mixer.query_activation == LinearActivation::silu && mixer.key_activation == LinearActivation::silu &&
         mixer.value_activation == LinearActivation::silu;
}

/// Whether a projection is kept in bfloat16: one whose parts all go through kernels, which read either.
bool rounds_projection(const LinearMixer& mixer, const TorchLayer& weights, const at::Tensor& normed) {
  return normed.is_cuda() && normed.scalar_type() == at::kBFloat16 && !weights.projection_bias.defined() &&
         !mixer.is_selective() && mixer.convolution > 0 && all_silu(mixer) &&
         fused_convolution_takes(normed, at::Tensor(), weights.convolution);
}

/// [H d]: HGRN2's bound of a layer's decays, 0 in the first.
at::Tensor lower_bound(const TorchWeights& weights, int layer) {
  const at::Tensor shares = at::softmax(weights.lower_bounds, 0);
  return (shares.cumsum(0) - shares[0])[layer];
}

at::Tensor unit_heads(const LinearMixer& mixer, const at::Tensor& x, LinearNorm norm, double factor) {
  if (norm == LinearNorm::l2 && fused_unit_heads_takes(x, mixer.key_dim)) {
    return fused_unit_heads(x, mixer.key_dim, factor);
  }
  const at::Tensor heads = composed_linear_norm(heads_first(x, mixer.key_dim), norm);
  return factor == 1 ? heads : heads * factor;
}

/// The feature map of heads [B, n, heads d].
at::Tensor mapped(const LinearMixer& mixer, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (mixer.feature_map == LinearFeatureMap::none) return x;
  const at::Tensor heads = x.unflatten(2, {x.size(2) / mixer.key_dim, mixer.key_dim});
  const at::Tensor both = at::matmul(heads, weight.t()) + bias;
  return (both.slice(3, 0, mixer.key_dim) * both.slice(3, mixer.key_dim)).flatten(2);
}

/// x / sqrt(mean(x^2) + epsilon) over the last axis.
at::Tensor rms_of(const at::Tensor& x, const std::optional<double>& epsilon) {
  return epsilon ? x * (x.square().mean(-1, true) + *epsilon).rsqrt() : x;
}

}  // namespace

TorchLinearSteps::TorchLinearSteps(TorchPass& pass)
    : pass_(pass), mixer_(*pass.config().linear), columns_(*pass.config().linear) {}

bool TorchLinearSteps::project(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  const at::Tensor in = pass_.mixer_input(layer);
  if (pass_.norms_by_kernel(in, weights.attention_norm)) {
    const double epsilon = pass_.config().norm_epsilon;
    if (weights.gates.size(0) == 0) {
      project_rows(layer, fused_norm(in, weights.attention_norm, epsilon),
                   at::empty({pass_.rows(), 0}, in.options().requires_grad(false)));
      return true;
    }
    const NormedGates rows =
        fused_norm_gates(in, weights.attention_norm, epsilon, weights.gates, weights.gates_high, weights.gates_rest);
    project_rows(layer, rows.normed, weights.gates_bias.defined() ? rows.gates + weights.gates_bias : rows.gates);
    return true;
  }
  const at::Tensor normed = pass_.norm(in, weights.attention_norm, weights.attention_norm_bias);
  project_rows(layer, normed.to(pass_.weights().matrix),
               composed_steps::affine(normed, weights.gates, weights.gates_bias));
  return true;
}

void TorchLinearSteps::project_rows(int layer, const at::Tensor& normed, const at::Tensor& gates) {
  const TorchLayer& weights = pass_.weights(layer);
  const at::Tensor columns = projected(weights, normed).view({pass_.batch(), pass_.length(), -1});
  operands_ = {};
  operands_.heads = mixer_.heads;
  operands_.delta_rule = mixer_.is_delta_rule();
  const bool values_first = columns_.value < columns_.query;
  std::vector<std::int64_t> sizes{mixer_.query_size(), mixer_.key_size(), mixer_.value_size()};
  if (values_first) std::swap(sizes.front(), sizes.back());
  // Autograd goes back through all parts of a split at once, by a copy: there is one split where nothing is between.
  std::vector<at::Tensor> parts;
  at::Tensor convolved;
  bool activated = false;
  if (mixer_.convolution == 0) {
    sizes.insert(sizes.begin(), columns_.convolved);
    parts = columns.split_with_sizes(sizes, 2);
    put_gate(layer, parts.front());
    parts.erase(parts.begin());
  } else {
    const std::int64_t convolved_size = columns.size(2) - columns_.convolved;
    const std::vector<at::Tensor> halves = columns.split_with_sizes({columns_.convolved, convolved_size}, 2);
    put_gate(layer, halves[0]);
    convolved = convolve(layer, halves[1], activated);
  }
  const auto activate = [&](const at::Tensor& x, LinearActivation activation) {
    return composed_activation(x, activated ? LinearActivation::none : activation);
  };
  if (mixer_.is_gated_recurrence() || mixer_.is_selective()) {
    const at::Tensor value =
        activate(convolved.slice(2, 0, mixer_.value_size()), mixer_.value_activation).to(at::kFloat);
    return mixer_.is_gated_recurrence() ? recur(layer, value) : select(layer, value);
  }
  if (convolved.defined()) parts = convolved.split_with_sizes(sizes, 2);
  at::Tensor key = activate(parts[1], mixer_.key_activation);
  put_decay(layer, gates.view({pass_.batch(), pass_.length(), -1}), key);
  at::Tensor query = activate(parts[values_first ? 2 : 0], mixer_.query_activation);
  query = mapped(mixer_, query, weights.query_map, weights.query_map_bias);
  key = mapped(mixer_, key, weights.key_map, weights.key_map_bias);
  const at::Tensor fed_back = mixer_.erases_by_arrays() ? feed_back(layer, key, query) : at::Tensor();
  operands_.query = turned(unit_heads(mixer_, query, mixer_.query_norm, mixer_.query_factor));
  operands_.key = turned(unit_heads(mixer_, key, mixer_.key_norm, 1));
  if (fed_back.defined()) {
    // Beta is within keys.
    operands_.key = operands_.key * std::exchange(operands_.beta, {}).unsqueeze(3);
    operands_.erase_read = fed_back;
    operands_.erase_write = -operands_.key;
  }
  operands_.value = heads_first(activate(parts[values_first ? 0 : 2], mixer_.value_activation), mixer_.value_dim);
}

/// The columns before `precise`, [B n, ...]. They are kept in the dtype of matrices alone.
at::Tensor TorchLinearSteps::projected(const TorchLayer& weights, const at::Tensor& normed) const {
  const bool keeps = rounds_projection(mixer_, weights, normed) ||
                     (!normed.is_cuda() && normed.scalar_type() == at::kFloat && !weights.projection_bias.defined());
  return keeps ? composed_steps::product(normed, weights.projection, pass_.kept)
               : composed_steps::affine(normed, weights.projection, weights.projection_bias);
}

/// z, where the output has a gate.
/// @param columns  that it is made of
void TorchLinearSteps::put_gate(int layer, const at::Tensor& columns) {
  gate_ = mixer_.gate != LinearGate::none ? columns : at::Tensor();
  if (mixer_.gate_rank == 0) return;
  const TorchLayer& weights = pass_.weights(layer);
  gate_ = at::matmul(gate_.to(at::kFloat), weights.output_gate.to(at::kFloat).t());
  if (weights.output_gate_bias.defined()) gate_ = gate_ + weights.output_gate_bias;
}

/// Comba's p, of which queries lose a part.
/// @param key    [B, n, H d] before its norm
/// @param query  likewise
/// @returns [B, H, n, d]
at::Tensor TorchLinearSteps::feed_back(int layer, const at::Tensor& key, at::Tensor& query) {
  const TorchLayer& weights = pass_.weights(layer);
  const auto by_head = [&](const at::Tensor& x) { return x.unflatten(2, {mixer_.heads, mixer_.key_dim}); };
  const at::Tensor p = by_head(key) * at::sigmoid(weights.feedback_decay).unsqueeze(1);
  query = (by_head(query) - p * weights.query_correction.unsqueeze(1)).flatten(2);
  return unit_heads(mixer_, p.flatten(2), mixer_.key_norm, 1);
}

/// Heads [B, H, n, d], turned by their positions where the mixer turns them.
at::Tensor TorchLinearSteps::turned(const at::Tensor& heads) const {
  if (!mixer_.rotary) return heads;
  const std::int64_t first = pass_.first_position();
  const std::vector<double> angles = mixer_.rotary->frequencies(first + pass_.length());
  const at::Tensor frequencies = at::tensor(at::ArrayRef<double>(angles.data(), angles.size()), at::kDouble);
  const at::Tensor turning =
      composed_steps::rotate(heads.transpose(1, 2), frequencies.to(heads.device()), mixer_.rotary->factor, first);
  return turning.transpose(1, 2);
}

/// The causal convolution of queries, keys and values, where the mixer has one; the states take up what it reads again.
/// @param projected  [B, n, columns]
/// @param activated  set where silu is in it
at::Tensor TorchLinearSteps::convolve(int layer, const at::Tensor& projected, bool& activated) const {
  if (mixer_.convolution == 0) return projected;
  const TorchLayer& weights = pass_.weights(layer);
  const std::int64_t length = pass_.length();
  const std::int64_t before = mixer_.convolution - 1;
  at::Tensor window;  // [B, before, columns]; undefined before the first position
  if (pass_.continues()) window = pass_.torch_state().layer(layer).window.unsqueeze(0);
  const at::Tensor seen =
      window.defined() ? window
                       : at::zeros({pass_.batch(), before, projected.size(2)}, projected.options().dtype(at::kFloat));
  if (pass_.has_states()) {
    at::Tensor last = projected.slice(1, std::max(length - before, std::int64_t{0})).to(at::kFloat);
    if (length < before) last = at::cat({seen.slice(1, length), last}, 1);
    for (std::int64_t b = 0; b < pass_.batch(); ++b) pass_.torch_state(b).layer(layer).window = last[b].clone();
  }
  activated = all_silu(mixer_) && fused_convolution_takes(projected, window, weights.convolution);
  return activated ? fused_convolution(projected, window, weights.convolution, weights.convolution_bias)
                   : composed_convolution(projected, seen, weights.convolution, weights.convolution_bias);
}

/// Mamba's step, keys and queries, which are made of what the convolution gives.
/// @param value  [B, n, H] float32
void TorchLinearSteps::select(int layer, const at::Tensor& value) {
  const TorchLayer& weights = pass_.weights(layer);
  const at::Tensor selected = at::matmul(value, weights.x_proj.t());
  const std::optional<double>& epsilon = mixer_.selected_norm_epsilon;
  const auto part = [&](std::int64_t first, std::int64_t size) {
    return heads_first(rms_of(selected.slice(2, first, first + size), epsilon), mixer_.key_dim);
  };
  at::Tensor unused;
  const at::Tensor low = rms_of(selected.slice(2, 0, mixer_.decay_rank), epsilon);
  put_decay(layer, at::matmul(low, weights.decay_up.t()), unused);
  operands_.key = part(mixer_.decay_rank, mixer_.key_size());
  operands_.query = part(mixer_.decay_rank + mixer_.key_size(), mixer_.query_size());
  operands_.value = heads_first(value, mixer_.value_dim);
}

/// RG-LRU's decays and what is written of the values, by two gates of blocks of channels.
/// @param value  [B, n, H] float32
void TorchLinearSteps::recur(int layer, const at::Tensor& value) {
  const TorchLayer& weights = pass_.weights(layer);
  const std::int64_t blocks = weights.x_proj.size(1);
  const at::Tensor in = value.unflatten(2, {blocks, value.size(2) / blocks}).unsqueeze(3);  // [B, n, blocks, 1, in]
  const auto gate = [&](std::int64_t which) {
    const at::Tensor logits = at::matmul(in, weights.x_proj[which]).squeeze(3).flatten(2);
    return at::sigmoid(logits + weights.x_proj_bias[which]).to(at::kDouble);
  };
  std::vector<double> slowest;
  const at::Tensor rates = weights.decay_rate.detach().to(at::kCPU).contiguous();
  for (std::int64_t head = 0; head < mixer_.heads; ++head) {
    slowest.push_back(LinearMixer::recurrent_log_decay(rates.const_data_ptr<float>()[head]));
  }
  const at::Tensor log_decay =
      gate(0) * at::tensor(at::ArrayRef<double>(slowest.data(), slowest.size()), at::kDouble).to(value.device());
  at::Tensor left = (-at::expm1(2 * log_decay)).sqrt();
  // The first position of a text has no state to share with.
  if (pass_.first_position() == 0) left.slice(1, 0, 1).fill_(1);
  operands_.beta = (gate(1) * left).to(at::kFloat).transpose(1, 2);
  operands_.log_decay = log_decay.transpose(1, 2);
  operands_.rate = at::ones({mixer_.heads, 1}, value.options());
  operands_.key = operands_.query = at::ones({pass_.batch(), 1, pass_.length(), 1}, value.options());
  operands_.value = heads_first(value, mixer_.value_dim);
}

/// log alpha [B, n, H] float64 of heads whose decay is the same at all positions.
at::Tensor TorchLinearSteps::constant_decay(int layer) const {
  std::vector<double> nats;
  for (int head = 0; head < mixer_.heads; ++head) {
    nats.push_back(mixer_.constant_log_decay(head, layer, pass_.config().layers));
  }
  return at::tensor(at::ArrayRef<double>(nats.data(), nats.size()), at::kDouble)
      .to(pass_.weights().place)
      .expand({pass_.batch(), pass_.length(), mixer_.heads});
}

/// log alpha [B, states(), n] or [B, key_heads, n, d] float64, beta, and what goes with the decay of keys or steps.
/// @param gates  [B, n, ...] float32 the projection's precise columns; where the mixer selects, logits of steps
void TorchLinearSteps::put_decay(int layer, const at::Tensor& gates, at::Tensor& key) {
  const TorchLayer& weights = pass_.weights(layer);
  const auto gate = [&](std::int64_t first, std::int64_t size) {
    return gates.slice(2, first - columns_.precise, first - columns_.precise + size);
  };
  at::Tensor log_decay;
  if (mixer_.decay == LinearDecay::rates) {
    const at::Tensor step = at::softplus(gates + weights.decay_bias);
    const at::Tensor rates = weights.decay_rate.exp();
    const at::Tensor mean = rates.mean(1).clamp_min(std::numeric_limits<float>::min());
    operands_.rate = rates / mean.unsqueeze(1);
    operands_.beta = step.transpose(1, 2);
    log_decay = -(step.to(at::kDouble) * mean.to(at::kDouble));
  } else if (mixer_.decay == LinearDecay::rate) {
    at::Tensor step = at::softplus(gate(columns_.decay, mixer_.states()) + weights.decay_bias);
    if (mixer_.beta == LinearBeta::step) {
      step = step.clamp(mixer_.lowest_step, mixer_.highest_step);
      operands_.beta = step.transpose(1, 2);
    }
    log_decay = -(step * weights.decay_rate.exp()).to(at::kDouble);
  } else if (mixer_.decay == LinearDecay::of_keys) {
    const at::Tensor logit = key;
    const bool bounded = mixer_.lower_bound && layer > 0;
    if (fused_decay_keys_takes(logit)) {
      const DecaysAndKeys made =
          fused_decay_keys(logit, bounded ? lower_bound(pass_.weights(), layer) : at::Tensor(), mixer_.key_dim);
      operands_.log_decay = made.log_decay;
      key = made.key;
    } else {
      key = at::sigmoid(-logit);
      log_decay = at::log_sigmoid(logit.to(at::kDouble));
      if (bounded) {
        const at::Tensor bound = lower_bound(pass_.weights(), layer);
        key = (1 - bound) * key;
        log_decay = (bound + (1 - bound) * at::sigmoid(logit)).to(at::kDouble).log();
      }
    }
  } else if (mixer_.has_constant_decay()) {
    log_decay = constant_decay(layer);
  } else if (mixer_.decay == LinearDecay::channel_rate) {
    const at::Tensor logit =
        at::matmul(gate(columns_.decay, mixer_.decay_rank), weights.decay_up.t()) + weights.decay_bias;
    const at::Tensor rate = weights.decay_rate.exp().repeat_interleave(mixer_.key_dim).to(at::kDouble);
    log_decay = mixer_.decay_bound < 0 ? mixer_.decay_bound * at::sigmoid(rate * logit.to(at::kDouble))
                                       : rate * at::log_sigmoid(-logit.to(at::kDouble));
  } else if (mixer_.decay == LinearDecay::low_rank) {
    const at::Tensor logit =
        at::matmul(gate(columns_.decay, mixer_.decay_rank), weights.decay_up.t()) + weights.decay_bias;
    log_decay = at::log_sigmoid(logit.to(at::kDouble)) * mixer_.decay_factor;
    if (mixer_.lowest_log_decay) log_decay = log_decay.clamp_min(*mixer_.lowest_log_decay);
  }
  if (log_decay.defined()) {
    operands_.log_decay =
        mixer_.decays_by_channel() ? heads_first(log_decay, mixer_.key_dim) : log_decay.transpose(1, 2);
  }
  if (mixer_.beta == LinearBeta::sigmoid || mixer_.beta == LinearBeta::twice_sigmoid) {
    const at::Tensor share = at::sigmoid(gate(columns_.beta, mixer_.heads)).transpose(1, 2);
    operands_.beta = mixer_.beta == LinearBeta::sigmoid ? share : 2 * share;
  }
}

void TorchLinearSteps::sum_gates(int layer) {
  if (pass_.changes_gates(layer) && operands_.log_decay.defined()) change_decays(layer);
  check_decays(layer);
}

void TorchLinearSteps::change_decays(int layer) {
  // Channels of a head are changed alike, [B, channels, heads, n].
  at::Tensor& log_decay = operands_.log_decay;
  const bool by_channel = operands_.decays_by_channel();
  at::Tensor host = by_channel ? log_decay.permute({0, 3, 1, 2}) : log_decay.unsqueeze(1);
  host = host.to(at::kCPU).contiguous();
  const std::int64_t length = pass_.length();
  const std::int64_t channels = host.size(1);
  const auto heads = static_cast<int>(host.size(2));
  for (std::int64_t n = 0; n < pass_.batch() * channels; ++n) {
    pass_.probes()[index_of(n / channels)].change_gates(layer, heads, pass_.first_position(), length,
                                                        host.mutable_data_ptr<double>() + n * heads * length);
  }
  if (mixer_.decay == LinearDecay::rates) {
    const at::Tensor logarithms = pass_.weights(layer).decay_rate.detach().to(at::kCPU, at::kFloat).contiguous();
    const ChannelRates rates({logarithms.const_data_ptr<float>(), static_cast<std::size_t>(logarithms.numel())}, heads);
    for (std::int64_t b = 0; b < pass_.batch(); ++b) {
      rates.hold_all(length, host.mutable_data_ptr<double>() + b * heads * length);
    }
  }
  log_decay = (by_channel ? host.permute({0, 2, 3, 1}) : host.squeeze(1)).to(pass_.weights().place).contiguous();
}

void TorchLinearSteps::check_decays(int layer) {
  // The first bad index of [B, heads, n, ...], and the value there.
  const auto find = [&](const at::Tensor& values, const at::Tensor& bad) {
    const at::Tensor index = bad.nonzero()[0].to(at::kCPU);
    const double value = values.masked_select(bad)[0].item<double>();
    return std::pair(DecayPlace{layer, static_cast<int>(index[1].item<std::int64_t>()),
                                pass_.first_position() + index[2].item<std::int64_t>()},
                     value);
  };
  // The extremes first, in one copy to the host: the place is looked for where something is wrong.
  const at::Tensor& log_decay = operands_.log_decay;
  const at::Tensor& beta = operands_.beta;
  std::vector<at::Tensor> extremes;
  if (log_decay.defined()) extremes.push_back(log_decay.detach().amax());
  if (beta.defined()) {
    const auto [lowest, highest] = at::aminmax(beta.detach());
    extremes.push_back((highest - lowest).to(at::kDouble));
  }
  if (extremes.empty()) return;
  const at::Tensor seen = at::stack(extremes).to(at::kCPU);
  const double* const numbers = seen.const_data_ptr<double>();
  if (log_decay.defined() && !(numbers[0] <= kDecayRounding)) {
    const auto bad = find(log_decay, log_decay.le(kDecayRounding).logical_not());
    throw_bad_decay(bad.first, bad.second);
  }
  if (beta.defined() && !std::isfinite(numbers[extremes.size() - 1])) {
    const auto bad = find(beta, beta.isfinite().logical_not());
    throw_bad_beta(bad.first, mixer_, bad.second);
  }
}

bool TorchLinearSteps::attend(int layer) {
  at::Tensor state;
  if (pass_.continues()) state = pass_.torch_state().layer(layer).recurrent.unsqueeze(0);
  const auto mixed = mixer_.steps > 1 ? mix_steps(layer, state) : mix(state);
  if (!mixed) return false;
  mixed_ = *mixed;
  for (std::int64_t b = 0; pass_.has_states() && b < pass_.batch(); ++b) {
    pass_.torch_state(b).layer(layer).recurrent = state[b].clone();
  }
  if (!pass_.continues()) record_operands(pass_, layer, operands_);
  return true;
}

std::optional<at::Tensor> TorchLinearSteps::mix(at::Tensor& state) {
  const bool fused = fused_linear_takes(operands_, pass_.weights().matrix);
  return fused ? fused_linear_mixing(operands_, state, pass_.job().stop, pass_.kept)
               : composed_linear_mixing(operands_, state, pass_.job().stop);
}

/// The delta rule over the steps of all positions, of which the first decays and the last is read. Heads that are cut
/// have no values: what they give is a product of them.
std::optional<at::Tensor> TorchLinearSteps::mix_steps(int layer, at::Tensor& state) {
  const std::int64_t steps = mixer_.steps;
  LinearOperands whole = operands_;
  // [B, states steps, n, ...] as [B, states, n steps, ...]
  const auto in_turn = [&](const at::Tensor& x) {
    return x.unflatten(1, {mixer_.states(), steps}).transpose(2, 3).flatten(2, 3);
  };
  const auto beside = [&](const at::Tensor& x) {
    auto sizes = x.sizes().vec();
    sizes.insert(sizes.begin() + 3, steps - 1);
    return at::zeros(sizes, x.options());
  };
  operands_.heads = mixer_.states();
  operands_.query = at::cat({beside(whole.query), whole.query.unsqueeze(3)}, 3).flatten(2, 3);
  operands_.key = in_turn(whole.key);
  at::Tensor value = whole.value;
  for (std::int64_t b = 0; b < pass_.batch(); ++b) {
    for (int head = 0; head < mixer_.heads; ++head) {
      if (!pass_.probes()[index_of(b)].cuts_head(layer, head)) continue;
      if (value.is_same(whole.value)) value = value.clone();
      value[b][head].zero_();
    }
  }
  operands_.value = in_turn(value);
  operands_.beta = in_turn(whole.beta);
  if (whole.log_decay.defined()) {
    operands_.log_decay =
        at::cat({whole.log_decay.unsqueeze(3), beside(whole.log_decay)}, 3).flatten(2, 3).contiguous();
    whole.log_decay = whole.log_decay.repeat_interleave(steps, 1);
  }
  const auto mixed = mix(state);
  operands_ = std::move(whole);
  if (!mixed) return std::nullopt;
  return mixed->unflatten(2, {pass_.length(), steps}).select(3, steps - 1);
}

bool TorchLinearSteps::project_output(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  at::Tensor output = take_output(layer);
  pass_.cut_heads(layer, output);
  pass_.add_affine(output.to(pass_.weights().matrix), weights.output, weights.output_bias);
  return !pass_.job().stopped();
}

at::Tensor TorchLinearSteps::take_output(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  const at::Tensor mixed = std::exchange(mixed_, {});
  const at::Tensor value = std::exchange(operands_, {}).value;
  const at::Tensor z = std::exchange(gate_, {});
  const at::Tensor skip = mixer_.skip != LinearSkip::none ? weights.skip : at::Tensor();
  const LinearOutput parts{mixed, value, z, skip, weights.output_norm};
  if (fused_linear_output_takes(mixer_, parts, pass_.weights().matrix)) return fused_linear_output(mixer_, parts);
  at::Tensor output = mixed.to(at::kFloat).transpose(1, 2);  // [B, n, H, d_v]
  if (skip.defined()) {
    output = output +
             value.transpose(1, 2) * skip.view({mixer_.heads, mixer_.skip == LinearSkip::head ? 1 : mixer_.value_dim});
  }
  output = output.flatten(2, 3);
  const at::Tensor gate = z.defined() ? composed_activation(z.to(at::kFloat), mixer_.gate_activation) : z;
  if (mixer_.gate == LinearGate::before_norm) output = output * gate;
  if (mixer_.norm_size > 0) {
    output = composed_steps::rms_norm(output.unflatten(2, {output.size(2) / mixer_.norm_size, mixer_.norm_size}),
                                      weights.output_norm.view({-1, mixer_.norm_size}), mixer_.norm_epsilon)
                 .flatten(2, 3);
  }
  if (mixer_.gate == LinearGate::after_norm) output = output * gate;
  return output.flatten(0, 1);
}

}  // namespace foxscope
