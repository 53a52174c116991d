#include "backend/model/layer/cpu/linear_cpu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/linear_mixing.h"

namespace foxscope {
namespace {

void activate(LinearActivation activation, std::int64_t size, float* x) {
  switch (activation) {
    case LinearActivation::none:
      break;
    case LinearActivation::silu:
      cpu_steps::silu(size, x);
      break;
    case LinearActivation::relu:
      for (std::int64_t n = 0; n < size; ++n) x[n] = std::max(x[n], 0.0F);
      break;
    case LinearActivation::elu_plus_one:
      for (std::int64_t n = 0; n < size; ++n) x[n] = x[n] > 0 ? x[n] + 1 : std::exp(x[n]);
      break;
    case LinearActivation::sigmoid:
      cpu_steps::sigmoids(size, x);
      break;
    case LinearActivation::gelu_tanh:
      cpu_steps::gelu_tanh(size, x);
      break;
  }
}

}  // namespace

LinearCpu::LinearCpu(CpuPass& pass)
    : pass_(pass),
      mixer_(*pass.config().linear),
      length_(pass.length()),
      convolution_(pass),
      columns_(convolution_.columns()),
      decays_(pass) {
  if (mixer_.gate != LinearGate::none) gate_.resize(index_of(pass.rows() * mixer_.output_size()));
  if (mixer_.erases_by_arrays()) {
    erase_read_.resize(index_of(pass.rows() * mixer_.key_size()));
    erase_write_.resize(erase_read_.size());
  }
  pass.need({.normed = mixer_.key_size(), .more_normed = mixer_.rows_before(), .output = mixer_.output_size()});
}

bool LinearCpu::project(int layer) {
  layer_ = layer;
  CpuWorkspace& memory = pass_.memory();
  pass_.find_places(TraceArray::query, layer, mixer_.query_size() * length_, memory.query, queries_);
  pass_.find_places(TraceArray::key, layer, mixer_.key_size() * length_, memory.key, keys_);
  pass_.find_places(TraceArray::value, layer, mixer_.value_size() * length_, memory.value, values_);
  decays_.begin_layer(layer);
  make_rotary_table();
  pass_.pack(0, pass_.rows(), pass_.weights(layer).projection, pass_.hidden());
  return pass_.for_rows([&](const CpuPass::Rows& rows) { project_rows(layer, rows); });
}

void LinearCpu::project_rows(int layer, const CpuPass::Rows& rows) {
  const ConvolutionCpu::Projected projected = convolution_.project(layer, rows);
  float* const decay_logits = rows.scratch.normed.data();  // of the projection's rows
  if (mixer_.decays_by_low_rank()) {
    pass_.multiply({.rows = projected.count,
                    .columns = mixer_.key_size(),
                    .depth = mixer_.decay_rank,
                    .in = projected.values + columns_.decay,
                    .in_stride = columns_.count,
                    .weight = pass_.weights(layer).decay_up.data(),
                    .out = decay_logits,
                    .out_stride = mixer_.key_size()});
  }
  make_gate(layer, rows, projected);
  float* const convolved = projected.scratch(columns_);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const own = convolution_.row_of(projected, row);
    if (mixer_.gate != LinearGate::none && mixer_.gate_rank == 0) {
      std::copy_n(own, columns_.convolved, gate_.data() + row * columns_.convolved);
    }
    convolution_.convolve(layer, projected, row, convolved);
    split(layer, row, convolved, decay_logits + (row - projected.first) * mixer_.key_size());
    decays_.split_heads(layer, row, own + columns_.precise);
  }
  convolution_.keep_windows(layer, projected);
}

/// The output's gate of some rows, where it goes through a low rank.
void LinearCpu::make_gate(int layer, const CpuPass::Rows& rows, const ConvolutionCpu::Projected& projected) {
  if (mixer_.gate_rank == 0) return;
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t size = mixer_.output_size();
  float* const gate = gate_.data() + rows.begin * size;
  pass_.multiply({.rows = rows.count(),
                  .columns = size,
                  .depth = mixer_.gate_rank,
                  .in = convolution_.row_of(projected, rows.begin),
                  .in_stride = columns_.count,
                  .weight = weights.output_gate.data(),
                  .out = gate,
                  .out_stride = size});
  CpuPass::add_to_rows(weights.output_gate_bias, rows.count(), gate);
}

void LinearCpu::make_rotary_table() {
  if (!mixer_.rotary) return;
  if (!pass_.by_columns()) {
    if (!rotary_) rotary_.emplace(*mixer_.rotary, length_);
    return;
  }
  std::vector<TextPosition> positions;
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    const std::int64_t position = pass_.first_position(sequence);
    positions.push_back({position, position + 1});
  }
  rotary_.emplace(*mixer_.rotary, positions);
}

/// Queries, keys and values of one position by heads, and the logits of decays by channel.
/// @param decay_logit  [key_heads d] of decays by a low rank, without its bias; else unread
void LinearCpu::split(int layer, std::int64_t row, float* convolved, const float* decay_logit) {
  const std::size_t sequence = index_of(row / length_);
  const std::int64_t position = row % length_;
  const std::int64_t dim = mixer_.key_dim;
  float* const query = convolved + columns_.query - columns_.convolved;
  float* const key = convolved + columns_.key - columns_.convolved;
  float* const value = convolved + columns_.value - columns_.convolved;
  activate(mixer_.query_activation, mixer_.query_size(), query);
  activate(mixer_.key_activation, mixer_.key_size(), key);
  activate(mixer_.value_activation, mixer_.value_size(), value);
  const LayerWeights& weights = pass_.weights(layer);
  map_heads(weights.query_map, weights.query_map_bias, mixer_.query_heads, query);
  map_heads(weights.key_map, weights.key_map_bias, mixer_.key_heads, key);
  if (mixer_.erases_by_arrays()) feed_back(layer, row, query, key);
  for (std::int64_t head = 0; head < mixer_.query_heads; ++head) {
    float* const to = queries_[sequence] + (head * length_ + position) * dim;
    std::copy_n(query + head * dim, dim, to);
    norm_head(mixer_.query_norm, mixer_.query_factor, to);
    turn(row, to);
  }
  for (std::int64_t head = 0; head < mixer_.key_heads; ++head) {
    float* const to = keys_[sequence] + (head * length_ + position) * dim;
    const float* const from = key + head * dim;
    std::copy_n(from, dim, to);
    if (mixer_.decays_by_channel()) {
      const float* const logit = mixer_.decay == LinearDecay::of_keys ? from : decay_logit + head * dim;
      decays_.split_channels(layer, row, logit, head, to);
    }
    norm_head(mixer_.key_norm, 1, to);
    turn(row, to);
  }
  for (std::int64_t head = 0; head < mixer_.value_heads; ++head) {
    std::copy_n(value + head * mixer_.value_dim, mixer_.value_dim,
                values_[sequence] + (head * length_ + position) * mixer_.value_dim);
  }
}

/// The feature map of each head, in place.  @param x  [heads d]
void LinearCpu::map_heads(const FloatArray& weight, const FloatArray& bias, std::int64_t heads, float* x) const {
  if (mixer_.feature_map == LinearFeatureMap::none) return;
  const std::int64_t dim = mixer_.key_dim;
  FloatArray from(index_of(dim));
  const auto product = [&](std::int64_t column) {
    const float* const row = weight.data() + column * dim;
    return std::inner_product(row, row + dim, from.begin(), bias[index_of(column)]);
  };
  for (std::int64_t head = 0; head < heads; ++head) {
    float* const own = x + head * dim;
    std::copy_n(own, dim, from.begin());
    for (std::int64_t n = 0; n < dim; ++n) own[n] = product(n) * product(dim + n);
  }
}

/// Comba's p of one position, which is e, and what it takes from queries.
/// @param query  [H d]
/// @param key    [H d] before their norm
void LinearCpu::feed_back(int layer, std::int64_t row, float* query, const float* key) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t dim = mixer_.key_dim;
  const std::int64_t heads = mixer_.key_heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    const float factor = cpu_steps::sigmoid(weights.feedback_decay[index_of(head)]);
    const float taken = weights.query_correction[index_of(head)];
    float* const p = erase_read_.data() + ((row / length_ * heads + head) * length_ + row % length_) * dim;
    for (std::int64_t n = 0; n < dim; ++n) {
      p[n] = factor * key[head * dim + n];
      query[head * dim + n] -= taken * p[n];
    }
    norm_head(mixer_.key_norm, 1, p);
  }
}

/// Turns a head of the query or the key of one position.
void LinearCpu::turn(std::int64_t row, float* head) const {
  if (!rotary_) return;
  const std::int64_t at = (pass_.by_columns() ? row : row % length_) * rotary_->half;
  cpu_steps::rotate(rotary_->cosine.data() + at, rotary_->sine.data() + at, 2 * rotary_->half, head);
}

void LinearCpu::norm_head(LinearNorm norm, double factor, float* x) const {
  const std::int64_t dim = mixer_.key_dim;
  if (norm == LinearNorm::l2) {
    cpu_steps::l2_norm(dim, static_cast<float>(kLinearNormEpsilon), static_cast<float>(factor), x);
    return;
  }
  if (norm == LinearNorm::sum || norm == LinearNorm::share) {
    double sum = norm == LinearNorm::share ? kLinearShareEpsilon : 0;
    for (std::int64_t n = 0; n < dim; ++n) sum += static_cast<double>(x[n]);
    factor /= sum;
  }
  if (factor == 1) return;
  for (std::int64_t n = 0; n < dim; ++n) x[n] *= static_cast<float>(factor);
}

void LinearCpu::sum_gates(int layer) { decays_.sum(layer); }

/// y of every position; the state takes them up.
bool LinearCpu::attend(int layer) {
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    if (mixer_.erases_by_arrays()) scale_keys(sequence);
    if (!mix(layer, sequence)) return false;
    if (pass_.continues()) continue;
    decays_.keep_beta(layer, sequence);
    if (!mixer_.erases_by_arrays()) continue;
    const std::int64_t first = sequence * mixer_.key_size() * length_;
    pass_.probes()[index_of(sequence)].take(TraceArray::erase_read, layer, erase_read_.data() + first);
    pass_.probes()[index_of(sequence)].take(TraceArray::erase_write, layer, erase_write_.data() + first);
  }
  return true;
}

/// Where arrays erase, keys are beta k and b is the same the other way round.
void LinearCpu::scale_keys(std::int64_t sequence) {
  const std::int64_t dim = mixer_.key_dim;
  const float* const beta = decays_.beta(sequence);
  float* const keys = keys_[index_of(sequence)];
  float* const write = erase_write_.data() + sequence * mixer_.key_size() * length_;
  for (std::int64_t n = 0; n < mixer_.key_size() * length_; ++n) {
    keys[n] *= beta[n / dim];
    write[n] = -keys[n];
  }
}

bool LinearCpu::mix(int layer, std::int64_t sequence) {
  if (!pass_.has_states()) state_.assign(index_of(mixer_.state_size()), 0.0F);
  kernels::cpu::LinearMixing arguments;
  arguments.heads = mixer_.heads;
  arguments.query_heads = mixer_.query_heads;
  arguments.key_heads = mixer_.key_heads;
  arguments.value_heads = mixer_.value_heads;
  arguments.length = length_;
  arguments.key_dim = mixer_.key_dim;
  arguments.value_dim = mixer_.value_dim;
  arguments.query = queries_[index_of(sequence)];
  arguments.key = keys_[index_of(sequence)];
  arguments.value = values_[index_of(sequence)];
  arguments.decay = decays_.decay(sequence);
  arguments.channel_decay = decays_.channel_decay(sequence);
  arguments.delta_rule = mixer_.is_delta_rule();
  if (mixer_.erases_by_arrays()) {
    const std::int64_t first = sequence * mixer_.key_size() * length_;
    arguments.erase_read = erase_read_.data() + first;
    arguments.erase_write = erase_write_.data() + first;
  } else {
    arguments.beta = decays_.beta(sequence);
  }
  arguments.state = pass_.has_states() ? pass_.layer_state(layer, sequence).recurrent.data() : state_.data();
  arguments.output = pass_.memory().attended.data() + sequence * length_ * mixer_.output_size();
  arguments.output_stride = mixer_.output_size();
  if (mixer_.steps > 1) return mix_steps(sequence, arguments);
  return run_mixing(arguments);
}

bool LinearCpu::run_mixing(const kernels::cpu::LinearMixing& arguments) const {
  const kernels::Status status = kernels::cpu::linear_mixing(arguments, pass_.team(), pass_.job().stop);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(fmt::format("[linear_mixing] {} heads of {} and {} over {} positions are not supported",
                                 mixer_.heads, mixer_.key_dim, mixer_.value_dim, length_));
  }
  return status == kernels::Status::ok;
}

/// The delta rule over the steps of all positions: only the first of a position decays, and only the last is read.
bool LinearCpu::mix_steps(std::int64_t sequence, kernels::cpu::LinearMixing& arguments) {
  const std::int64_t states = mixer_.states();
  const std::int64_t length = length_ * mixer_.steps;
  const auto make = [&](FloatArray& array, std::int64_t width, float value) {
    array.assign(index_of(states * length * width), value);
  };
  make(steps_.query, mixer_.key_dim, 0);
  make(steps_.key, mixer_.key_dim, 0);
  make(steps_.value, mixer_.value_dim, 0);
  make(steps_.decay, 1, 1);
  make(steps_.beta, 1, 0);
  make(steps_.output, mixer_.value_dim, 0);
  pass_.team().run(mixer_.heads, [&](std::int64_t head, int /*thread*/) { put_steps(sequence, head); });
  float* const output = std::exchange(arguments.output, steps_.output.data());
  arguments.heads = arguments.query_heads = arguments.key_heads = arguments.value_heads = mixer_.states();
  arguments.length = length;
  arguments.query = steps_.query.data();
  arguments.key = steps_.key.data();
  arguments.value = steps_.value.data();
  arguments.decay = steps_.decay.data();
  arguments.beta = steps_.beta.data();
  if (!run_mixing(arguments)) return false;
  const std::int64_t size = mixer_.output_size();
  for (std::int64_t row = 0; row < length_; ++row) {
    std::copy_n(steps_.output.data() + ((row + 1) * mixer_.steps - 1) * size, size, output + row * size);
  }
  return true;
}

/// The positions of a head as steps. A head that is cut has no values: what it gives is a product of them.
void LinearCpu::put_steps(std::int64_t sequence, std::int64_t head) {
  const std::int64_t steps = mixer_.steps;
  const std::int64_t key_dim = mixer_.key_dim;
  const std::int64_t value_dim = mixer_.value_dim;
  const std::int64_t step = head % steps;
  const std::int64_t state = head / steps;
  const float* const query = queries_[index_of(sequence)] + state * length_ * key_dim;
  const float* const key = keys_[index_of(sequence)] + head * length_ * key_dim;
  const float* const value = values_[index_of(sequence)] + head * length_ * value_dim;
  const float* const decay = decays_.decay(sequence);
  const float* const beta = decays_.beta(sequence);
  const bool cut = pass_.probes()[index_of(sequence)].cuts_head(layer_, static_cast<int>(head));
  for (std::int64_t row = 0; row < length_; ++row) {
    const std::int64_t at = (state * length_ + row) * steps + step;
    std::copy_n(key + row * key_dim, key_dim, steps_.key.data() + at * key_dim);
    if (!cut) std::copy_n(value + row * value_dim, value_dim, steps_.value.data() + at * value_dim);
    steps_.beta[index_of(at)] = beta[head * length_ + row];
    if (step == 0 && decay != nullptr) steps_.decay[index_of(at)] = decay[state * length_ + row];
    if (step == steps - 1) std::copy_n(query + row * key_dim, key_dim, steps_.query.data() + at * key_dim);
  }
}

bool LinearCpu::project_output(int layer) {
  pass_.find_cut_heads(layer);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).output, mixer_.output_size());
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    const std::int64_t size = mixer_.output_size();
    float* const mixed = pass_.memory().attended.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      finish(layer, row, mixed + row * size);
      if (mixer_.steps == 1) pass_.cut_heads(row, mixer_.value_dim, mixed + row * size);
    }
    const LayerWeights& weights = pass_.weights(layer);
    pass_.add_to_residual(rows, {mixed + rows.begin * size, size, size}, weights.output, weights.output_bias);
  });
}

/// Norm and gate of y + D v, in place.  @param mixed  [H d_v]
void LinearCpu::finish(int layer, std::int64_t row, float* mixed) const {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t size = mixer_.output_size();
  const std::int64_t dim = mixer_.value_dim;
  if (mixer_.skip != LinearSkip::none) {
    const float* const values = values_[index_of(row / length_)];
    for (std::int64_t head = 0; head < mixer_.heads; ++head) {
      const float* const value = values + (head / (mixer_.heads / mixer_.value_heads) * length_ + row % length_) * dim;
      const bool by_head = mixer_.skip == LinearSkip::head;
      const float* const factor = weights.skip.data() + (by_head ? head : head * dim);
      float* const to = mixed + head * dim;
      for (std::int64_t n = 0; n < dim; ++n) to[n] += factor[by_head ? 0 : n] * value[n];
    }
  }
  if (mixer_.gate == LinearGate::before_norm) multiply_gate(row, mixed);
  if (mixer_.norm_size > 0) {
    const bool shared = std::ssize(weights.output_norm) == mixer_.norm_size;
    for (std::int64_t first = 0; first < size; first += mixer_.norm_size) {
      cpu_steps::rms_norm(mixed + first, weights.output_norm.data() + (shared ? 0 : first), mixer_.norm_size,
                          static_cast<float>(mixer_.norm_epsilon), mixed + first);
    }
  }
  if (mixer_.gate == LinearGate::after_norm) multiply_gate(row, mixed);
}

void LinearCpu::multiply_gate(std::int64_t row, float* mixed) const {
  const std::int64_t size = mixer_.output_size();
  const float* const gate = gate_.data() + row * size;
  mixer_.gate_activation == LinearActivation::sigmoid ? cpu_steps::multiply_sigmoid(gate, size, mixed)
                                                      : cpu_steps::multiply_silu(gate, size, mixed);
}

}  // namespace foxscope
