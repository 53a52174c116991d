#include "backend/model/layer/torch/attention_torch.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "backend/model/layer/torch/path_torch.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "backend/model/spec/interventions.h"
#include "kernels/cpu/gate_scan.h"
#include "kernels/cuda/steps/gate_scan.h"

namespace foxscope {

bool TorchAttentionSteps::project(int layer) {
  const ModelConfig& config = pass_.config();
  const TorchLayer& weights = pass_.weights(layer);
  const ProjectionColumns& columns = pass_.weights().columns;
  const at::ScalarType matrix = pass_.weights().matrix;
  const std::int64_t batch = pass_.batch();
  const std::int64_t length = pass_.length();
  const std::int64_t dim = config.head_dim;
  normed_ = pass_.norm(pass_.mixer_input(layer), weights.attention_norm, weights.attention_norm_bias);
  if (config.latent) {
    project_latent(layer);
    return true;
  }
  const at::Tensor projected = composed_steps::affine(normed_.to(matrix), weights.projection, weights.projection_bias)
                                   .view({batch, length, columns.key_shift});
  gates_ = composed_steps::affine(normed_, weights.gates, weights.gates_bias);
  const at::Tensor gates = gates_.view({batch, length, gates_.size(1)});
  const auto heads = [&](std::int64_t begin, std::int64_t end) {
    return projected.slice(2, begin, end).unflatten(2, {(end - begin) / dim, dim});  // [B, n, H, d]
  };
  at::Tensor query = heads(0, columns.key);
  at::Tensor key = heads(columns.key, columns.value);
  at::Tensor value = heads(columns.value, columns.key_shift);
  const at::Tensor last_keys = key.select(1, length - 1);
  const at::Tensor last_values = value.select(1, length - 1);
  const bool shifts = config.key_shift || config.value_shift;
  at::Tensor before;
  if (shifts && pass_.continues()) before = pass_.torch_state().last(layer).view({2, config.key_heads, dim});
  const auto before_of = [&](std::int64_t part) { return before.defined() ? before[part] : at::Tensor(); };
  if (config.key_shift) key = composed_steps::shift(key, before_of(0), gates.slice(2, 0, config.key_heads));
  if (config.value_shift) {
    const std::int64_t first = columns.value_shift - columns.key_shift;
    value = composed_steps::shift(value, before_of(1), gates.slice(2, first, first + config.key_heads));
  }
  for (std::int64_t b = 0; shifts && pass_.has_states() && b < batch; ++b) {
    pass_.torch_state(b).keep_last(layer, last_keys[b], last_values[b]);
  }
  if (weights.query_norm.defined()) {
    query = norm_heads(query, weights.query_norm);
    key = norm_heads(key, weights.key_norm);
  }
  if (const double limit = config.projection_limit; limit > 0) {
    query = query.clamp(-limit, limit);
    key = key.clamp(-limit, limit);
    value = value.clamp(-limit, limit);
  }
  if (config.path) project_path(layer, gates);
  rotate(layer, query, key);
  const auto heads_first = [&](const at::Tensor& x) { return x.transpose(1, 2).to(matrix).contiguous(); };
  query_ = heads_first(query);
  key_ = heads_first(key);
  value_ = heads_first(value);
  return true;
}

/// Makes e and b, which pass keys on.
/// @param gates  [B, n, ...] of all columns behind the values'
void TorchAttentionSteps::project_path(int layer, const at::Tensor& gates) {
  const ModelConfig& config = pass_.config();
  const PathDirections& path = *config.path;
  const TorchLayer& weights = pass_.weights(layer);
  const ProjectionColumns& columns = pass_.weights().columns;
  const std::int64_t first = columns.path - columns.key_shift;
  const std::int64_t beta = columns.path_beta - columns.key_shift;
  at::Tensor w = gates.slice(2, first, beta);
  if (path.rank > 0) w = at::matmul(w, weights.path_up.t());
  if (path.taps > 0) {
    const std::int64_t before = path.taps - 1;
    at::Tensor window = at::zeros({pass_.batch(), before, config.key_size()}, w.options());
    if (pass_.continues()) window = pass_.torch_state().layer(layer).window.unsqueeze(0);
    const at::Tensor seen = at::cat({window, w}, 1);
    for (std::int64_t b = 0; pass_.has_states() && b < pass_.batch(); ++b) {
      pass_.torch_state(b).layer(layer).window = seen[b].slice(0, seen.size(1) - before).clone();
    }
    w = at::silu(composed_convolution(w, window, weights.convolution, at::Tensor()));
  }
  w = w.unflatten(2, {config.key_heads, config.head_dim});
  w = w / (w.square().sum(3, true) + path.epsilon).sqrt();
  const at::Tensor share = 2 * at::sigmoid(gates.slice(2, beta, beta + config.key_heads)).unsqueeze(3);
  erase_read_ = w.transpose(1, 2).contiguous();
  erase_write_ = -(share * w).transpose(1, 2).contiguous();
}

/// Queries, keys and values by way of a low rank (LatentKeys).
void TorchAttentionSteps::project_latent(int layer) {
  const ModelConfig& config = pass_.config();
  const LatentKeys& latent = *config.latent;
  const TorchLayer& weights = pass_.weights(layer);
  const at::ScalarType matrix = pass_.weights().matrix;
  const std::int64_t queries = config.query_size();
  const std::int64_t rows = pass_.rows();
  gates_ = at::zeros({rows, 0}, pass_.residual.options());
  const at::Tensor projected = composed_steps::linear_to_float(normed_.to(matrix), weights.projection);
  const at::Tensor low =
      composed_steps::rms_norm(projected.slice(1, queries, queries + latent.rank), weights.latent_norm, latent.epsilon);
  const at::Tensor raised = composed_steps::linear_to_float(low.to(matrix), weights.latent_up)
                                .view({rows, config.heads, latent.own_dim + latent.value_dim});
  const at::Tensor shared =
      projected.slice(1, queries + latent.rank).unsqueeze(1).expand({rows, config.heads, latent.shared_dim});
  const auto heads_first = [&](const at::Tensor& x) {
    return x.view({pass_.batch(), pass_.length(), config.heads, config.head_dim})
        .transpose(1, 2)
        .to(matrix)
        .contiguous();
  };
  query_ = heads_first(projected.slice(1, 0, queries).contiguous());
  key_ = heads_first(at::cat({raised.slice(2, 0, latent.own_dim), shared}, 2));
  value_ = heads_first(
      at::constant_pad_nd(raised.slice(2, latent.own_dim), {0, config.head_dim - latent.value_dim}).contiguous());
}

/// The norm of queries or keys [B, n, H, d], of each head or of all together.
at::Tensor TorchAttentionSteps::norm_heads(const at::Tensor& heads, const at::Tensor& weight) const {
  const ModelConfig& config = pass_.config();
  const double epsilon = config.query_key_norm_epsilon;
  if (config.query_key_norm != QueryKeyNorm::whole) return composed_steps::rms_norm(heads, weight, epsilon);
  return composed_steps::rms_norm(heads.flatten(2), weight.flatten(), epsilon).view_as(heads);
}

/// Queries and keys [B, n, H, d], turned by their positions.
void TorchAttentionSteps::rotate(int layer, at::Tensor& query, at::Tensor& key) const {
  const ModelConfig& config = pass_.config();
  const Rotary* const rotary = config.rotary_at(layer);
  if (rotary == nullptr) return;
  const int which = config.attention[index_of(layer)].rotary;
  const std::int64_t first = pass_.first_position();
  const std::span<const std::int64_t> lengths = pass_.input().lengths;
  at::Tensor frequencies;
  if (!rotary->depends_on_length() || lengths.empty()) {
    frequencies = pass_.weights().frequencies_of(which, first + pass_.length());
  } else {
    std::vector<at::Tensor> of_texts;
    for (const std::int64_t length : lengths) {
      of_texts.push_back(pass_.weights().frequencies_of(which, first + length));
    }
    frequencies = at::stack(of_texts);
  }
  query = composed_steps::rotate(query, frequencies, rotary->factor, first);
  key = composed_steps::rotate(key, frequencies, rotary->factor, first);
  if (rotary->query_growth == 0) return;
  std::vector<float> factors;
  for (std::int64_t n = 0; n < pass_.length(); ++n) {
    factors.push_back(static_cast<float>(rotary->query_factor(first + n)));
  }
  query = query * at::tensor(at::ArrayRef<float>(factors), at::kFloat).to(query.device()).view({1, -1, 1, 1});
}

at::Tensor TorchAttentionSteps::log_gates(int layer) const {
  const std::int64_t batch = pass_.batch();
  const std::int64_t heads = pass_.config().heads;
  const std::int64_t length = pass_.length();
  if (!pass_.config().gated()) return at::zeros({batch, heads, length}, pass_.weights().options(at::kDouble));
  const at::Tensor& constant = pass_.weights(layer).constant_gate;
  const ProjectionColumns& columns = pass_.weights().columns;
  const std::int64_t first = columns.forget - columns.key_shift;
  const at::Tensor logits = constant.defined() ? constant.view({1, 1, heads}).expand({batch, length, heads})
                                               : gates_.slice(1, first, first + heads).view({batch, length, heads});
  const at::Tensor log_gate = at::log_sigmoid(logits.to(at::kDouble));
  const double factor = pass_.config().log_gate_factor;
  return (factor == 1 ? log_gate : log_gate * factor).transpose(1, 2).contiguous();
}

void TorchAttentionSteps::sum_gates(int layer) {
  cumulative_ = at::Tensor();
  if (!pass_.gated(layer)) return;
  const bool changed = pass_.changes_gates(layer);
  const bool plain = !changed && pass_.config().log_gate_factor == 1;
  if (pass_.by_kernel() && plain && !pass_.continues()) return sum_gates_by_kernel(layer);
  const at::Device& place = pass_.weights().place;
  const std::int64_t heads = pass_.config().heads;
  const std::int64_t length = pass_.length();
  at::Tensor log_gate = log_gates(layer);
  if (changed || !pass_.continues()) {
    log_gate = log_gate.to(at::kCPU).contiguous();
    double* const values = log_gate.mutable_data_ptr<double>();
    for (std::int64_t b = 0; b < pass_.batch(); ++b) {
      pass_.probes()[index_of(b)].change_gates(layer, pass_.config().heads, pass_.first_position(), length,
                                               values + b * heads * length);
    }
  }
  if (pass_.continues()) {
    const at::Tensor sums = pass_.torch_state().layer(layer).cumulative_log_gate.rows();
    cumulative_ = sums.slice(1, sums.size(1) - 1).unsqueeze(0) + log_gate.to(place).clamp_min(kLowestLogGate);
    return;
  }
  cumulative_ = at::empty_like(log_gate);
  kernels::cpu::cumulative_log_gate(log_gate.const_data_ptr<double>(), pass_.batch() * heads, length,
                                    cumulative_.mutable_data_ptr<double>());
  cumulative_ = cumulative_.to(place);
}

void TorchAttentionSteps::sum_gates_by_kernel(int layer) {
  const TorchWeights& weights = pass_.weights();
  const at::Tensor& constant = pass_.weights(layer).constant_gate;
  kernels::cuda::GateScan scan;
  scan.batch = pass_.batch();
  scan.heads = pass_.config().heads;
  scan.length = pass_.length();
  cumulative_ = at::empty({scan.batch, scan.heads, scan.length}, weights.options(at::kDouble));
  const std::size_t bytes = kernels::cuda::gate_scan_workspace_bytes(scan.batch * scan.heads, scan.length);
  const at::Tensor workspace = at::empty({static_cast<std::int64_t>(bytes)}, weights.options(at::kByte));
  if (constant.defined()) {
    scan.constant_logits = constant.const_data_ptr<float>();
  } else {
    scan.logits = gates_.const_data_ptr<float>() + (weights.columns.forget - weights.columns.key_shift);
    scan.logits_stride = gates_.stride(0);
  }
  scan.cumulative = cumulative_.mutable_data_ptr<double>();
  scan.workspace = workspace.mutable_data_ptr();
  pass_.check(kernels::cuda::gate_scan(scan, current_stream(weights.place)), "the sums of gates");
}

bool TorchAttentionSteps::attend(int layer) {
  if (pass_.continues()) {
    attend_next(layer);
  } else {
    if (pass_.by_kernel() && pass_.config().attention_cap == 0 && !pass_.config().sinks && !pass_.config().path) {
      attend_by_kernel(layer);
    } else {
      const auto done = attend_in_tiles(layer, cumulative_, pass_.input().pruning_tolerance);
      if (!done) return false;
      pass_.report().attention_kernel = "composed";
      pass_.report().attention_blocks += done->blocks;
      pass_.report().skipped_blocks += done->skipped_blocks;
    }
    record_heads(pass_, layer, query_, key_, value_, cumulative_);
    if (erase_read_.defined()) record_erasing(pass_, layer, erase_read_, erase_write_);
    start_states(layer);
  }
  for (std::int64_t b = 0; pass_.has_states() && b < pass_.batch(); ++b) {
    pass_.torch_state(b).drop_keys(layer, pass_.config().attention[index_of(layer)].window_size,
                                   pass_.weights(layer).logit_bound);
  }
  return true;
}

void TorchAttentionSteps::start_states(int layer) {
  for (std::int64_t b = 0; pass_.has_states() && b < pass_.batch(); ++b) {
    TorchState::Layer& cache = pass_.torch_state(b).layer(layer);
    const auto of_text = [&](const at::Tensor& rows) { return rows[b].slice(1, 0, pass_.text_length(b)); };
    // Copies of their own: the originals may lie in a store that goes before the state does.
    // Keys that are passed on are changed by every position: they are held in float32.
    cache.key.start(erase_read_.defined() ? PathBlocks(key_[b], erase_read_[b], erase_write_[b]).keys_at_end()
                                          : of_text(key_).clone(at::MemoryFormat::Contiguous));
    cache.value.start(of_text(value_).clone(at::MemoryFormat::Contiguous));
    if (cumulative_.defined()) cache.cumulative_log_gate.start(of_text(cumulative_));
  }
}

std::optional<ComposedAttentionResult> TorchAttentionSteps::attend_in_tiles(int layer, const at::Tensor& cumulative,
                                                                            double tolerance) {
  const ModelConfig& config = pass_.config();
  ComposedAttention attention;
  attention.query = query_;
  attention.key = key_;
  attention.value = value_;
  attention.cumulative_log_gate = cumulative;
  attention.scale = softmax_scale<double>(config.head_dim);
  attention.window_size = config.attention[index_of(layer)].window_size;
  attention.logit_cap = config.attention_cap;
  attention.sink = pass_.weights(layer).sinks;
  attention.erase_read = erase_read_;
  attention.erase_write = erase_write_;
  attention.pruning_tolerance = tolerance;
  attention.without_gate_as_well = pass_.keeps(Keep::ungated);
  const auto attended = composed_forgetting_attention(attention, pass_.job().stop);
  if (!attended) return std::nullopt;
  attended_ = attended->output.transpose(1, 2).reshape({pass_.rows(), config.heads, config.head_dim});
  record_normalizers(pass_, layer, attended->log_normalizer, attended->log_normalizer_without_gate);
  return attended;
}

void TorchAttentionSteps::attend_by_kernel(int layer) {
  const std::int64_t batch = pass_.batch();
  const std::int64_t heads = pass_.config().heads;
  const std::int64_t length = pass_.length();
  const std::int64_t dim = pass_.config().head_dim;
  attended_ = at::empty({pass_.rows(), heads, dim}, query_.options());
  CudaAttention attention;
  attention.query = query_;
  attention.key = key_;
  attention.value = value_;
  attention.output = attended_.view({batch, length, heads, dim}).transpose(1, 2);
  attention.scale = softmax_scale<double>(dim);
  attention.window_size = pass_.config().attention[index_of(layer)].window_size;
  const auto normalizer = [&] { return at::empty({batch, heads, length}, pass_.weights().options(at::kFloat)); };
  at::Tensor without_gate;
  if (pass_.keeps(Keep::ungated)) {
    attention.log_normalizer = without_gate = normalizer();
    cuda_forgetting_attention(attention);
  }
  attention.log_normalizer = pass_.keeps(Keep::rows) ? normalizer() : at::Tensor();
  attention.cumulative_log_gate = cumulative_;
  attention.pruning_tolerance = pass_.input().pruning_tolerance;
  attention.blocks = pass_.blocks[layer];
  pass_.report().attention_kernel = cuda_forgetting_attention(attention);
  record_normalizers(pass_, layer, attention.log_normalizer, without_gate);
}

/// o of the newest position: logits and softmax in float32.
void TorchAttentionSteps::attend_next(int layer) {
  const ModelConfig& config = pass_.config();
  const std::int64_t position = pass_.first_position();
  TorchState::Layer& cache = pass_.torch_state().layer(layer);
  assert(cache.first + cache.key.size() == position);
  at::Tensor query = query_[0];
  if (erase_read_.defined()) {
    const at::Tensor keys = cache.key.rows();
    const at::Tensor met = at::matmul(keys, erase_read_[0].mT());  // [H_kv, n, 1]
    cache.key.start(keys + met * erase_write_[0]);
    cache.key.append(key_[0].to(at::kFloat));
    query = query.to(at::kFloat);
  } else {
    cache.key.append(key_[0]);
  }
  cache.value.append(value_[0]);
  if (cumulative_.defined()) cache.cumulative_log_gate.append(cumulative_[0]);
  const std::int64_t dim = config.head_dim;
  const std::int64_t group = config.heads / config.key_heads;
  std::int64_t left = 0;  // keys that have left the window
  const std::int64_t window = config.attention[index_of(layer)].window_size;
  if (window > 0) left = std::max<std::int64_t>(0, position - window + 1 - cache.first);
  const at::Tensor key = cache.key.rows().slice(1, left);
  const at::Tensor value = cache.value.rows().slice(1, left);
  at::Tensor logits =
      composed_steps::products_to_float(query.reshape({config.key_heads, group, dim}), key.transpose(1, 2)) *
      softmax_scale<double>(dim);
  logits = composed_steps::capped(logits, config.attention_cap);
  if (cumulative_.defined()) {
    const at::Tensor c = cache.cumulative_log_gate.rows().slice(1, left);
    const at::Tensor decay = (c.slice(1, c.size(1) - 1) - c).to(at::kFloat);
    logits += decay.view({config.key_heads, group, c.size(1)});
  }
  const std::int64_t keys = logits.size(2);
  if (const at::Tensor& sinks = pass_.weights(layer).sinks; sinks.defined()) {
    logits = at::cat({logits, sinks.view({config.key_heads, group, 1})}, 2);
  }
  const at::Tensor shares = at::softmax(logits, 2).slice(2, 0, keys).to(value.scalar_type());
  attended_ = at::bmm(shares, value).view({1, config.heads, dim});
}

bool TorchAttentionSteps::project_output(int layer) {
  const ModelConfig& config = pass_.config();
  const TorchLayer& weights = pass_.weights(layer);
  const at::ScalarType matrix = pass_.weights().matrix;
  at::Tensor output = attended_.to(at::kFloat);
  if (config.output_norm) output = composed_steps::rms_norm(output, weights.output_norm, config.norm_epsilon);
  output = output.reshape({pass_.rows(), config.query_size()});
  if (config.output_gate) {
    const at::Tensor gate = composed_steps::linear_to_float(normed_.to(matrix), weights.output_gate);
    output = output * (config.gates_by_silu() ? at::silu(gate) : at::sigmoid(gate));
  }
  pass_.cut_heads(layer, output);
  if (config.latent) {
    // Values without what they were filled up by.
    output = output.unflatten(1, {config.heads, config.head_dim}).slice(2, 0, config.latent->value_dim).flatten(1);
  }
  const at::Tensor made = composed_steps::affine(output.to(matrix), weights.output, weights.output_bias);
  pass_.add(composed_steps::rms_norm(made, weights.attention_post_norm, config.norm_epsilon));
  // The next layer's are made without these beside.
  attended_ = normed_ = at::Tensor();
  return !pass_.job().stopped();
}

}  // namespace foxscope
