#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/torch/composed_attention_torch.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/fused_linear_torch.h"
#include "backend/model/layer/torch/query_key_record_torch.h"
#include "backend/model/layer/torch/torch_forward_torch.h"
#include "backend/model/spec/interventions.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cuda/steps/gate_scan.h"

namespace foxscope {
namespace {

using composed_steps::affine;

/// Rows of the MLP, and numbers of a block of logits, at once.
constexpr std::int64_t kMlpRows = 8192;
/// Nats that a log decay may be above 0 by rounding.
constexpr double kDecayRounding = 1e-4;
constexpr std::int64_t kLogitElements = std::int64_t{1} << 26;

at::Tensor int_tensor(std::span<const std::int32_t> values) {
  return at::tensor(at::ArrayRef<std::int32_t>(values.data(), values.size()), at::kInt);
}

/// Copies to memory of the caller's.
void copy_to_host(const at::Tensor& from, void* into) {
  at::from_blob(into, from.sizes(), at::TensorOptions().dtype(from.scalar_type())).copy_(from.detach());
}

}  // namespace

TorchForward::TorchForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length)
    : Forward(weights.config, batch, length),
      weights_(weights),
      by_kernel_(weights.on_gpu() && cuda_attention_takes(weights.config.head_dim, weights.matrix)) {}

void TorchForward::begin() {
  if (weights_.on_gpu() && !continues()) downloads_.emplace(weights_.place);
  if (by_kernel_ && !continues()) blocks_ = at::zeros({config().layers, 2}, weights_.options(at::kLong));
  report().attention_kernel = by_kernel_ ? "cuda" : "composed";
  const std::span<const float> hidden = input().hidden;
  if (!hidden.empty()) {
    // A copy: the layers add to it in place.
    residual_ = at::tensor(at::ArrayRef<float>(hidden.data(), hidden.size()), at::kFloat)
                    .view({rows(), config().hidden_size})
                    .to(weights_.place);
    return;
  }
  residual_ = weights_.embedding.index_select(0, int_tensor(input().ids).to(weights_.place));
  if (!weights_.positions.defined()) return;
  const at::Tensor table = weights_.positions.slice(0, first_position(), first_position() + length());
  residual_.view({batch(), length(), -1}).add_(table);
}

void TorchForward::keep_hidden(int layer) {
  if (!keeps(Keep::hidden)) return;
  const bool last = layer == config().layers;
  const at::Tensor rows = last ? norm(residual_, weights_.final_norm, weights_.final_norm_bias) : residual_;
  for (std::int64_t b = 0; b < batch(); ++b) {
    if (Recorder* const into = recorder(b)) {
      const std::span<float> kept = into->hidden_states(layer, config().hidden_size);
      if (!kept.empty()) copy_to_host(rows.slice(0, b * length(), (b + 1) * length()), kept.data());
    }
  }
}

at::Tensor TorchForward::norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  if (config().norm == NormKind::rms) return composed_steps::rms_norm(x, weight, config().norm_epsilon);
  return composed_steps::layer_norm(x, weight, bias, config().norm_epsilon);
}

bool TorchForward::project(int layer) {
  const TorchLayer& weights = weights_of(layer);
  const ProjectionColumns& columns = weights_.columns;
  const std::int64_t dim = config().head_dim;
  normed_ = norm(residual_, weights.attention_norm, weights.attention_norm_bias);
  if (config().is_linear(layer)) {
    project_linear(layer, normed_.to(weights_.matrix), affine(normed_, weights.gates, weights.gates_bias));
    return true;
  }
  const at::Tensor projected = affine(normed_.to(weights_.matrix), weights.projection, weights.projection_bias)
                                   .view({batch(), length(), columns.key_shift});
  gates_ = affine(normed_, weights.gates, weights.gates_bias);
  const at::Tensor gates = gates_.view({batch(), length(), gates_.size(1)});
  const auto heads = [&](std::int64_t begin, std::int64_t end) {
    return projected.slice(2, begin, end).unflatten(2, {(end - begin) / dim, dim});  // [B, n, H, d]
  };
  at::Tensor query = heads(0, columns.key);
  at::Tensor key = heads(columns.key, columns.value);
  at::Tensor value = heads(columns.value, columns.key_shift);
  const at::Tensor last_keys = key.select(1, length() - 1);
  const at::Tensor last_values = value.select(1, length() - 1);
  const bool shifts = config().key_shift || config().value_shift;
  at::Tensor before;
  if (shifts && continues()) before = torch_state().last(layer).view({2, config().key_heads, dim});
  const auto before_of = [&](std::int64_t part) { return before.defined() ? before[part] : at::Tensor(); };
  if (config().key_shift) key = composed_steps::shift(key, before_of(0), gates.slice(2, 0, config().key_heads));
  if (config().value_shift) {
    const std::int64_t first = columns.value_shift - columns.key_shift;
    value = composed_steps::shift(value, before_of(1), gates.slice(2, first, first + config().key_heads));
  }
  for (std::int64_t b = 0; shifts && has_states() && b < batch(); ++b) {
    torch_state(b).keep_last(layer, last_keys[b], last_values[b]);
  }
  if (weights.query_norm.defined()) {
    query = composed_steps::rms_norm(query, weights.query_norm, config().query_key_norm_epsilon);
    key = composed_steps::rms_norm(key, weights.key_norm, config().query_key_norm_epsilon);
  }
  if (config().rope) {
    query = composed_steps::rotate(query, weights_.frequencies, first_position());
    key = composed_steps::rotate(key, weights_.frequencies, first_position());
  }
  const auto heads_first = [&](const at::Tensor& x) { return x.transpose(1, 2).to(weights_.matrix).contiguous(); };
  query_ = heads_first(query);
  key_ = heads_first(key);
  value_ = heads_first(value);
  return true;
}

at::Tensor TorchForward::log_gates(int layer) const {
  const std::int64_t heads = config().heads;
  if (!config().gated()) return at::zeros({batch(), heads, length()}, weights_.options(at::kDouble));
  const at::Tensor& constant = weights_of(layer).constant_gate;
  const std::int64_t first = weights_.columns.forget - weights_.columns.key_shift;
  const at::Tensor logits = constant.defined() ? constant.view({1, 1, heads}).expand({batch(), length(), heads})
                                               : gates_.slice(1, first, first + heads).view({batch(), length(), heads});
  return at::log_sigmoid(logits.to(at::kDouble)).transpose(1, 2).contiguous();
}

void TorchForward::sum_gates(int layer) {
  cumulative_ = at::Tensor();
  if (config().is_linear(layer)) {
    change_decays(layer);
    check_decays(layer);
    return;
  }
  if (!gated(layer)) return;
  const std::int64_t heads = config().heads;
  const bool changed =
      std::ranges::any_of(probes(), [layer](const Probe& probe) { return probe.changes_gates(layer); });
  if (by_kernel_ && !changed && !continues()) {
    cumulative_ = at::empty({batch(), heads, length()}, weights_.options(at::kDouble));
    const auto bytes = static_cast<std::int64_t>(kernels::cuda::gate_scan_workspace_bytes(batch() * heads, length()));
    const at::Tensor workspace = at::empty({bytes}, weights_.options(at::kByte));
    const at::Tensor& constant = weights_of(layer).constant_gate;
    kernels::cuda::GateScan scan;
    scan.batch = batch();
    scan.heads = heads;
    scan.length = length();
    if (constant.defined()) {
      scan.constant_logits = constant.const_data_ptr<float>();
    } else {
      scan.logits = gates_.const_data_ptr<float>() + (weights_.columns.forget - weights_.columns.key_shift);
      scan.logits_stride = gates_.stride(0);
    }
    scan.cumulative = cumulative_.mutable_data_ptr<double>();
    scan.workspace = workspace.mutable_data_ptr();
    check(kernels::cuda::gate_scan(scan, current_stream(weights_.place)), "the sums of gates");
    return;
  }
  at::Tensor log_gate = log_gates(layer);
  if (changed || !continues()) {
    log_gate = log_gate.to(at::kCPU).contiguous();
    double* const values = log_gate.mutable_data_ptr<double>();
    for (std::int64_t b = 0; b < batch(); ++b) {
      probes()[static_cast<std::size_t>(b)].change_gates(layer, config().heads, first_position(), length(),
                                                         values + b * heads * length());
    }
  }
  if (continues()) {
    const at::Tensor sums = torch_state().layer(layer).cumulative_log_gate.rows();
    cumulative_ = sums.slice(1, sums.size(1) - 1).unsqueeze(0) + log_gate.to(weights_.place).clamp_min(kLowestLogGate);
    return;
  }
  cumulative_ = at::empty_like(log_gate);
  kernels::cpu::cumulative_log_gate(log_gate.const_data_ptr<double>(), batch() * heads, length(),
                                    cumulative_.mutable_data_ptr<double>());
  cumulative_ = cumulative_.to(weights_.place);
}

bool TorchForward::attend(int layer) {
  if (config().is_linear(layer)) return mix_linear(layer);
  if (continues()) {
    attend_next(layer);
  } else if (!attend_whole(layer)) {
    return false;
  }
  for (std::int64_t b = 0; has_states() && b < batch(); ++b) {
    torch_state(b).drop_keys(layer, config().window_size, weights_of(layer).logit_bound);
  }
  return true;
}

bool TorchForward::attend_whole(int layer) {
  if (by_kernel_) {
    attend_by_kernel(layer);
  } else if (!attend_in_tiles(layer)) {
    return false;
  }
  keep_heads(layer);
  for (std::int64_t b = 0; has_states() && b < batch(); ++b) {
    TorchState::Layer& cache = torch_state(b).layer(layer);
    // Copies of their own: the originals may lie in a store that goes before the state does.
    cache.key.start(key_[b].clone(at::MemoryFormat::Contiguous));
    cache.value.start(value_[b].clone(at::MemoryFormat::Contiguous));
    if (cumulative_.defined()) cache.cumulative_log_gate.start(cumulative_[b]);
  }
  return true;
}

void TorchForward::project_linear(int layer, const at::Tensor& normed, const at::Tensor& gates) {
  at::Tensor window;
  if (continues() && config().linear->convolution > 0) window = torch_state().layer(layer).window.unsqueeze(0);
  linear_ = linear_steps::project(weights_, layer, batch(), normed, gates, window);
  for (std::int64_t b = 0; has_states() && linear_.window.defined() && b < batch(); ++b) {
    torch_state(b).layer(layer).window = linear_.window[b].clone();
  }
}

void TorchForward::change_decays(int layer) {
  const bool changed =
      std::ranges::any_of(probes(), [layer](const Probe& probe) { return probe.changes_gates(layer); });
  at::Tensor& log_decay = linear_.operands.log_decay;
  if (!changed || !log_decay.defined()) return;
  // Channels of a head are changed alike, [B, channels, heads, n].
  const bool by_channel = linear_.operands.decays_by_channel();
  at::Tensor host = by_channel ? log_decay.permute({0, 3, 1, 2}) : log_decay.unsqueeze(1);
  host = host.to(at::kCPU).contiguous();
  const std::int64_t channels = host.size(1);
  const auto heads = static_cast<int>(host.size(2));
  for (std::int64_t n = 0; n < batch() * channels; ++n) {
    probes()[static_cast<std::size_t>(n / channels)].change_gates(
        layer, heads, first_position(), length(), host.mutable_data_ptr<double>() + n * heads * length());
  }
  if (config().linear->decay == LinearDecay::rates) {
    const at::Tensor logarithms = weights_of(layer).decay_rate.detach().to(at::kCPU, at::kFloat).contiguous();
    const ChannelRates rates({logarithms.const_data_ptr<float>(), static_cast<std::size_t>(logarithms.numel())}, heads);
    for (std::int64_t b = 0; b < batch(); ++b) {
      rates.hold_all(length(), host.mutable_data_ptr<double>() + b * heads * length());
    }
  }
  log_decay = (by_channel ? host.permute({0, 2, 3, 1}) : host.squeeze(1)).to(weights_.place).contiguous();
}

/// What is not a number here would make everything after it so.
void TorchForward::check_decays(int layer) const {
  const LinearOperands& operands = linear_.operands;
  // Of [B, heads, n, ...] the first place, and what is there.
  const auto find = [&](const at::Tensor& values, const at::Tensor& bad) {
    const at::Tensor index = bad.nonzero()[0].to(at::kCPU);
    const double value = values.masked_select(bad)[0].item<double>();
    return std::pair(DecayPlace{layer, static_cast<int>(index[1].item<std::int64_t>()),
                                first_position() + index[2].item<std::int64_t>()},
                     value);
  };
  // The extremes first: the place is looked for where something is wrong.
  if (operands.log_decay.defined() && !(operands.log_decay.amax().item<double>() <= kDecayRounding)) {
    const auto bad = find(operands.log_decay, operands.log_decay.le(kDecayRounding).logical_not());
    throw_bad_decay(bad.first, bad.second);
  }
  if (!operands.beta.defined()) return;
  const auto [lowest, highest] = at::aminmax(operands.beta);
  if (!std::isfinite((highest - lowest).item<float>())) {
    const auto bad = find(operands.beta, operands.beta.isfinite().logical_not());
    throw_bad_beta(bad.first, *config().linear, bad.second);
  }
}

std::optional<at::Tensor> TorchForward::mix(at::Tensor& state) {
  const bool fused = fused_linear_takes(linear_.operands, weights_.matrix);
  return fused ? fused_linear_mixing(linear_.operands, state, job().stop)
               : composed_linear_mixing(linear_.operands, state, job().stop);
}

bool TorchForward::mix_linear(int layer) {
  at::Tensor state;
  if (continues()) state = torch_state().layer(layer).recurrent.unsqueeze(0);
  const auto mixed = mix(state);
  if (!mixed) return false;
  attended_ = *mixed;
  for (std::int64_t b = 0; has_states() && b < batch(); ++b) {
    torch_state(b).layer(layer).recurrent = state[b].clone();
  }
  if (!continues()) keep_linear(layer);
  return true;
}

/// What the recorders keep of a linear mixer.
void TorchForward::keep_linear(int layer) {
  const LinearOperands& operands = linear_.operands;
  for (std::int64_t b = 0; b < batch(); ++b) {
    Recorder* const into = recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::gates) && operands.log_decay.defined()) {
      const bool by_channel = operands.decays_by_channel();
      const at::Tensor sums = operands.log_decay[b].cumsum(1).contiguous();
      keep(sums, [into, layer, by_channel] {
        return by_channel ? into->cumulative_log_decay(layer).data() : into->cumulative_log_gate(layer).data();
      });
      if (operands.rate.defined()) {
        keep(operands.rate.to(at::kDouble).contiguous(), [into, layer] { return into->decay_rate(layer).data(); });
      }
    }
    if (into->keeps(Keep::query_key) && operands.beta.defined()) {
      keep(operands.beta[b].contiguous(), [into, layer] { return into->beta(layer).data(); });
    } else if (into->keeps(Keep::query_key)) {
      std::ranges::fill(into->beta(layer), 1.0F);
    }
    const auto store = [&](TraceArray array, const at::Tensor& x) {
      record_stored(*into, array, layer, x[b].detach(), weights_.matrix);
    };
    store(TraceArray::query, operands.query);
    store(TraceArray::key, operands.key);
    store(TraceArray::value, operands.value);
  }
}

/// By LibTorch's operations.
bool TorchForward::attend_in_tiles(int layer) {
  ComposedAttention attention;
  attention.query = query_;
  attention.key = key_;
  attention.value = value_;
  attention.cumulative_log_gate = cumulative_;
  attention.scale = 1 / std::sqrt(static_cast<double>(config().head_dim));
  attention.window_size = config().window_size;
  attention.pruning_tolerance = input().pruning_tolerance;
  attention.without_gate_as_well = keeps(Keep::ungated);
  const auto attended = composed_forgetting_attention(attention, job().stop);
  if (!attended) return false;
  report().attention_blocks += attended->blocks;
  report().skipped_blocks += attended->skipped_blocks;
  attended_ = attended->output.transpose(1, 2).reshape({rows(), config().heads, config().head_dim});
  for (std::int64_t b = 0; b < batch(); ++b) {
    Recorder* const into = recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::rows)) {
      keep(attended->log_normalizer[b], [into, layer] { return into->log_normalizer(layer).data(); });
    }
    if (into->keeps(Keep::ungated)) {
      keep(attended->log_normalizer_without_gate[b],
           [into, layer] { return into->log_normalizer_without_gate(layer).data(); });
    }
  }
  return true;
}

void TorchForward::attend_by_kernel(int layer) {
  const std::int64_t dim = config().head_dim;
  attended_ = at::empty({rows(), config().heads, dim}, query_.options());
  CudaAttention attention;
  attention.query = query_;
  attention.key = key_;
  attention.value = value_;
  attention.output = attended_.view({batch(), length(), config().heads, dim}).transpose(1, 2);
  attention.scale = 1 / std::sqrt(static_cast<double>(dim));
  attention.window_size = config().window_size;
  const auto attend = [&](Keep part, auto place_of) {
    attention.log_normalizer = at::Tensor();
    if (keeps(part)) {
      attention.log_normalizer = at::empty({batch(), config().heads, length()}, weights_.options(at::kFloat));
    }
    report().attention_kernel = cuda_forgetting_attention(attention);
    for (std::int64_t b = 0; b < batch() && keeps(part); ++b) {
      Recorder* const into = recorder(b);
      if (into == nullptr || !into->keeps(part)) continue;
      keep(attention.log_normalizer[b], [=] { return place_of(*into).data(); });
    }
  };
  if (keeps(Keep::ungated)) {
    attend(Keep::ungated, [layer](Recorder& into) { return into.log_normalizer_without_gate(layer); });
  }
  attention.cumulative_log_gate = cumulative_;
  attention.pruning_tolerance = input().pruning_tolerance;
  attention.blocks = blocks_[layer];
  attend(Keep::rows, [layer](Recorder& into) { return into.log_normalizer(layer); });
}

void TorchForward::keep_heads(int layer) {
  for (std::int64_t b = 0; b < batch(); ++b) {
    Recorder* const into = recorder(b);
    if (into == nullptr) continue;
    if (into->keeps(Keep::gates)) {
      if (cumulative_.defined()) {
        keep(cumulative_[b], [into, layer] { return into->cumulative_log_gate(layer).data(); });
      } else {
        std::ranges::fill(into->cumulative_log_gate(layer), 0.0);
      }
    }
    record_stored(*into, TraceArray::query, layer, query_[b].detach(), weights_.matrix);
    record_stored(*into, TraceArray::key, layer, key_[b].detach(), weights_.matrix);
    record_stored(*into, TraceArray::value, layer, value_[b].detach(), weights_.matrix);
  }
}

/// o of the newest position: logits and softmax in float32.
void TorchForward::attend_next(int layer) {
  TorchState::Layer& cache = torch_state().layer(layer);
  assert(cache.first + cache.key.size() == first_position());
  cache.key.append(key_[0]);
  cache.value.append(value_[0]);
  if (cumulative_.defined()) cache.cumulative_log_gate.append(cumulative_[0]);
  const std::int64_t dim = config().head_dim;
  const std::int64_t group = config().heads / config().key_heads;
  std::int64_t left = 0;  // keys that have left the window
  if (config().window_size > 0) {
    left = std::max<std::int64_t>(0, first_position() - config().window_size + 1 - cache.first);
  }
  const at::Tensor key = cache.key.rows().slice(1, left);
  const at::Tensor value = cache.value.rows().slice(1, left);
  at::Tensor logits =
      composed_steps::products_to_float(query_[0].reshape({config().key_heads, group, dim}), key.transpose(1, 2)) *
      (1 / std::sqrt(static_cast<double>(dim)));
  if (cumulative_.defined()) {
    const at::Tensor c = cache.cumulative_log_gate.rows().slice(1, left);
    const at::Tensor decay = (c.slice(1, c.size(1) - 1) - c).to(at::kFloat);
    logits += decay.view({config().key_heads, group, c.size(1)});
  }
  const at::Tensor shares = at::softmax(logits, 2).to(value.scalar_type());
  attended_ = at::bmm(shares, value).view({1, config().heads, dim});
}

void TorchForward::cut_heads(int layer, at::Tensor& output) const {
  const int heads = config().heads_of(layer);
  const std::int64_t dim = output.size(1) / heads;
  bool own = !at::GradMode::is_enabled();  // else what made it may need it on the way back
  for (std::int64_t b = 0; b < batch(); ++b) {
    for (int head = 0; head < heads; ++head) {
      if (!probes()[static_cast<std::size_t>(b)].cuts_head(layer, head)) continue;
      if (!std::exchange(own, true)) output = output.clone();
      output.slice(0, b * length(), (b + 1) * length()).slice(1, head * dim, (head + 1) * dim).zero_();
    }
  }
}

at::Tensor TorchForward::mixer_output(int layer) const {
  const TorchLayer& weights = weights_of(layer);
  at::Tensor output =
      config().is_linear(layer) ? linear_steps::finish(weights_, layer, attended_, linear_) : attention_output(layer);
  cut_heads(layer, output);
  return affine(output.to(weights_.matrix), weights.output, weights.output_bias);
}

/// Of the heads, normed and gated, [B n, H d].
at::Tensor TorchForward::attention_output(int layer) const {
  const TorchLayer& weights = weights_of(layer);
  at::Tensor output = attended_.to(at::kFloat);
  if (config().output_norm) output = composed_steps::rms_norm(output, weights.output_norm, config().norm_epsilon);
  output = output.reshape({rows(), config().query_size()});
  if (config().output_gate) {
    const at::Tensor gate = composed_steps::linear_to_float(normed_.to(weights_.matrix), weights.output_gate);
    // Behind an output norm the authors' gate is always a sigmoid.
    const bool silu = config().output_gate_activation == OutputGateActivation::silu && !config().output_norm;
    output = output * (silu ? at::silu(gate) : at::sigmoid(gate));
  }
  return output;
}

bool TorchForward::project_output(int layer) {
  residual_ += mixer_output(layer);
  drop_mixed();
  return !job().stopped();
}

void TorchForward::drop_mixed() {
  linear_ = {};
  attended_ = at::Tensor();
}

at::Tensor TorchForward::mlp_output(int layer, const at::Tensor& rows) const {
  const TorchLayer& weights = weights_of(layer);
  const at::Tensor normed = norm(rows, weights.mlp_norm, weights.mlp_norm_bias).to(weights_.matrix);
  const at::Tensor wide = affine(normed, weights.mlp_in, weights.mlp_in_bias);
  at::Tensor units;
  if (config().mlp == MlpKind::swiglu) {
    const std::int64_t inner = config().intermediate_of(layer);
    units = at::silu(wide.slice(1, 0, inner)) * wide.slice(1, inner);
  } else {
    units = at::gelu(wide, config().mlp == MlpKind::gelu ? "none" : "tanh");
  }
  return affine(units.to(weights_.matrix), weights.mlp_out, weights.mlp_out_bias);
}

bool TorchForward::feed_forward(int layer) {
  for (std::int64_t begin = 0; begin < rows(); begin += kMlpRows) {
    at::Tensor rows_at_hand = residual_.slice(0, begin, std::min(begin + kMlpRows, rows()));
    rows_at_hand += mlp_output(layer, rows_at_hand);
  }
  return !job().stopped();
}

at::Tensor TorchForward::final_norm(std::int64_t first_row) {
  return norm(residual_.slice(0, first_row), weights_.final_norm, weights_.final_norm_bias).to(weights_.matrix);
}

at::Tensor TorchForward::logits(const at::Tensor& normed) {
  return composed_steps::linear_to_float(normed, weights_.padded_head.slice(0, 0, config().vocabulary_size));
}

at::Tensor TorchForward::labels() const { return int_tensor(input().labels).to(weights_.place); }

bool TorchForward::predict() {
  keep_hidden(config().layers);
  if (!keeps(Keep::loss) && !keeps(Keep::logits)) return true;
  const std::int64_t vocabulary = config().vocabulary_size;
  const std::int64_t most = std::clamp(kLogitElements / vocabulary, std::int64_t{1}, rows());
  const at::Tensor normed = final_norm(0);
  const at::Tensor wanted = labels().to(at::kLong);
  const at::Tensor loss = at::empty({rows()}, weights_.options(at::kFloat));
  for (std::int64_t begin = 0; begin < rows(); begin += most) {
    if (job().stopped()) return false;
    const std::int64_t end = std::min(begin + most, rows());
    const at::Tensor made = logits(normed.slice(0, begin, end));
    const at::Tensor of_label = made.gather(1, wanted.slice(0, begin, end).unsqueeze(1)).squeeze(1);
    loss.slice(0, begin, end).copy_(at::logsumexp(made, {1}) - of_label);
    keep_logits(begin, made);
  }
  keep_losses(loss);
  return true;
}

/// @param first   row of the first
/// @param logits  [rows, V]
void TorchForward::keep_logits(std::int64_t first, const at::Tensor& logits) {
  if (!keeps(Keep::logits)) return;
  for (std::int64_t row = first; row < first + logits.size(0);) {
    const std::int64_t b = row / length();
    const std::int64_t end = std::min((b + 1) * length(), first + logits.size(0));
    if (Recorder* const into = recorder(b); into != nullptr && into->keeps(Keep::logits)) {
      const std::int64_t vocabulary = config().vocabulary_size;
      copy_to_host(logits.slice(0, row - first, end - first),
                   into->logits(vocabulary).data() + (row - b * length()) * vocabulary);
    }
    row = end;
  }
}

/// @param loss  [B n] float32
void TorchForward::keep_losses(const at::Tensor& loss) {
  for (std::int64_t b = 0; b < batch(); ++b) {
    Recorder* const into = recorder(b);
    if (into == nullptr || !into->keeps(Keep::loss)) continue;
    keep(loss.slice(0, b * length(), (b + 1) * length()), [into] { return into->per_token_loss().data(); });
  }
}

void TorchForward::predict_next(std::span<const std::span<float>> log_probabilities) {
  const at::Tensor last = final_norm(length() - 1).slice(0, 0, rows(), length());  // [B, D]
  // Of all rows, that digits do not depend on how many are asked for.
  const at::Tensor asked = logits(last).slice(0, 0, std::ssize(log_probabilities));
  const at::Tensor next = at::log_softmax(asked.to(at::kDouble), 1).to(at::kFloat).to(at::kCPU);
  for (std::int64_t b = 0; b < next.size(0); ++b) {
    copy_to_host(next[b], log_probabilities[static_cast<std::size_t>(b)].data());
  }
}

bool TorchForward::score(std::span<const ScoredRow> scored, int top, const Job& job) {
  std::vector<std::int64_t> indices;
  for (const ScoredRow& row : scored) indices.push_back(row.row);
  const at::Tensor normed =
      final_norm(0).index_select(0, at::tensor(at::ArrayRef<std::int64_t>(indices), at::kLong).to(weights_.place));
  const std::int64_t vocabulary = config().vocabulary_size;
  const auto count = static_cast<std::int64_t>(scored.size());
  const std::int64_t most = std::clamp(kLogitElements / vocabulary, std::int64_t{1}, count);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    if (job.stopped()) return false;
    const std::int64_t end = std::min(begin + most, count);
    score_rows(scored.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), top,
               logits(normed.slice(0, begin, end)));
  }
  return true;
}

void TorchForward::score_rows(std::span<const ScoredRow> scored, int top, const at::Tensor& logits) {
  std::vector<std::int64_t> labels;
  for (const ScoredRow& row : scored) labels.push_back(std::max<std::int64_t>(row.label, 0));
  const at::Tensor wanted = at::tensor(at::ArrayRef<std::int64_t>(labels), at::kLong).to(logits.device()).unsqueeze(1);
  const at::Tensor normalizer = at::logsumexp(logits, {1}, /*keepdim=*/true).to(at::kDouble);
  const auto log_probability = [&](const at::Tensor& ids) {
    return (logits.gather(1, ids).to(at::kDouble) - normalizer).to(at::kFloat);
  };
  const at::Tensor of_label = log_probability(wanted).to(at::kCPU);
  at::Tensor entropy;
  at::Tensor rank;
  if (!scored.empty() && scored.front().distribution) {
    const at::Tensor log_p = (logits.to(at::kDouble) - normalizer).clamp_min(std::numeric_limits<double>::lowest());
    entropy = -(log_p.exp() * log_p).sum(1).to(at::kFloat).to(at::kCPU).contiguous();
    const at::Tensor of_label_logit = logits.gather(1, wanted);
    const at::Tensor lower = at::arange(logits.size(1), wanted.options()).unsqueeze(0) < wanted;
    rank = ((logits > of_label_logit) | ((logits == of_label_logit) & lower)).sum(1).to(at::kCPU).contiguous();
  }
  at::Tensor marked;
  if (!scored.empty() && !scored.front().marked.empty()) {
    std::vector<std::int64_t> ids;
    for (std::size_t id = 0; id < scored.front().marked.size(); ++id) {
      if (scored.front().marked[id] != 0) ids.push_back(static_cast<std::int64_t>(id));
    }
    const at::Tensor of = at::tensor(at::ArrayRef<std::int64_t>(ids), at::kLong).to(logits.device());
    const at::Tensor sums = at::logsumexp(logits.index_select(1, of).to(at::kDouble), {1}, /*keepdim=*/true);
    marked = (sums - normalizer).to(at::kFloat).to(at::kCPU).contiguous();
  }
  // One after the other: argmax gives the first of equals, which topk does not promise.
  std::vector<at::Tensor> best_ids;
  std::vector<at::Tensor> best;
  for (int n = 0; n < std::max(top, 1); ++n) {
    const at::Tensor ids = logits.argmax(1, /*keepdim=*/true);
    best.push_back(log_probability(ids));
    best_ids.push_back(ids);
    if (n + 1 < top) logits.scatter_(1, ids, -std::numeric_limits<float>::infinity());
  }
  const at::Tensor top_ids = at::cat(best_ids, 1).to(at::kCPU).contiguous();  // [rows, max(k, 1)]
  const at::Tensor tops = at::cat(best, 1).to(at::kCPU).contiguous();
  for (std::size_t row = 0; row < scored.size(); ++row) {
    ScoredPosition& score = *scored[row].score;
    const std::int64_t* const ids =
        top_ids.const_data_ptr<std::int64_t>() + row * static_cast<std::size_t>(tops.size(1));
    const float* const numbers = tops.const_data_ptr<float>() + row * static_cast<std::size_t>(tops.size(1));
    if (scored[row].label >= 0) {
      score.log_probability = of_label.const_data_ptr<float>()[row];
      score.greedy = scored[row].label == ids[0];
    }
    if (entropy.defined()) {
      score.entropy = entropy.const_data_ptr<float>()[row];
      if (scored[row].label >= 0) score.rank = rank.const_data_ptr<std::int64_t>()[row] + 1;
    }
    if (marked.defined()) score.marked_log_probability = marked.const_data_ptr<float>()[row];
    for (int n = 0; n < top; ++n) score.top.push_back({static_cast<std::int32_t>(ids[n]), numbers[n]});
  }
}

void TorchForward::keep(const at::Tensor& from, std::function<void*()> into) {
  if (downloads_) {
    downloads_->take(from.detach(), std::move(into));
  } else {
    copy_to_host(from, into());
  }
}

void TorchForward::end_layer(int /*layer*/) {
  if (downloads_ && !continues()) downloads_->end_layer();
}

int TorchForward::layers_done(int begun) const {
  return downloads_ && !continues() ? input().first_layer + downloads_->layers_done() : begun;
}

bool TorchForward::finish() {
  if (!downloads_ || continues()) return true;
  if (blocks_.defined()) downloads_->take(blocks_.sum(0), [this] { return &block_count_; });
  downloads_->finish();
  if (job().stopped()) return false;
  report().attention_blocks += block_count_.total;
  report().skipped_blocks += block_count_.skipped;
  return true;
}

void TorchForward::check(kernels::Status status, const char* step) const {
  if (status == kernels::Status::ok) return;
  throw Error(fmt::format("{}: the GPU refused {} in a forward pass over {} tokens: try --device cpu",
                          weights_.device.name(), step, length()));
}

}  // namespace foxscope
