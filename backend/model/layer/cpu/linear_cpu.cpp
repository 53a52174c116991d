#include "backend/model/layer/cpu/linear_cpu.h"

#include <algorithm>
#include <cmath>

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
  pass.need({.normed = mixer_.key_size(), .more_normed = mixer_.rows_before(), .output = mixer_.output_size()});
}

bool LinearCpu::project(int layer) {
  CpuWorkspace& memory = pass_.memory();
  pass_.find_places(TraceArray::query, layer, mixer_.query_size() * length_, memory.query, queries_);
  pass_.find_places(TraceArray::key, layer, mixer_.key_size() * length_, memory.key, keys_);
  pass_.find_places(TraceArray::value, layer, mixer_.value_size() * length_, memory.value, values_);
  decays_.begin_layer(layer);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).projection, pass_.hidden());
  return pass_.for_rows([&](const CpuPass::Rows& rows) { project_rows(layer, rows); });
}

void LinearCpu::project_rows(int layer, const CpuPass::Rows& rows) {
  const ConvolutionCpu::Projected projected = convolution_.project(layer, rows);
  float* const decay_logits = rows.scratch.normed.data();  // of the projection's rows
  if (mixer_.decay == LinearDecay::low_rank) {
    pass_.multiply({.rows = projected.count,
                    .columns = mixer_.key_size(),
                    .depth = mixer_.decay_rank,
                    .in = projected.values + columns_.decay,
                    .in_stride = columns_.count,
                    .weight = pass_.weights(layer).decay_up.data(),
                    .out = decay_logits,
                    .out_stride = mixer_.key_size()});
  }
  float* const convolved = projected.scratch(columns_);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const own = convolution_.row_of(projected, row);
    if (mixer_.gate != LinearGate::none) {
      std::copy_n(own, columns_.convolved, gate_.data() + row * columns_.convolved);
    }
    convolution_.convolve(layer, projected, row, convolved);
    split(layer, row, convolved, decay_logits + (row - projected.first) * mixer_.key_size());
    decays_.split_heads(layer, row, own + columns_.precise);
  }
  convolution_.keep_windows(layer, projected);
}

/// Queries, keys and values of one position by heads, and the logits of decays by channel.
/// @param decay_logit  [key_heads d] of LinearDecay::low_rank, without its bias; else unread
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
  for (std::int64_t head = 0; head < mixer_.query_heads; ++head) {
    float* const to = queries_[sequence] + (head * length_ + position) * dim;
    std::copy_n(query + head * dim, dim, to);
    norm_head(to, mixer_.query_factor);
  }
  for (std::int64_t head = 0; head < mixer_.key_heads; ++head) {
    float* const to = keys_[sequence] + (head * length_ + position) * dim;
    const float* const from = key + head * dim;
    std::copy_n(from, dim, to);
    if (mixer_.decays_by_channel()) {
      const float* const logit = mixer_.decay == LinearDecay::of_keys ? from : decay_logit + head * dim;
      decays_.split_channels(layer, row, logit, head, to);
    }
    norm_head(to, 1);
  }
  for (std::int64_t head = 0; head < mixer_.value_heads; ++head) {
    std::copy_n(value + head * mixer_.value_dim, mixer_.value_dim,
                values_[sequence] + (head * length_ + position) * mixer_.value_dim);
  }
}

void LinearCpu::norm_head(float* x, double factor) const {
  const std::int64_t dim = mixer_.key_dim;
  if (mixer_.norm == LinearNorm::l2) {
    cpu_steps::l2_norm(dim, static_cast<float>(kLinearNormEpsilon), static_cast<float>(factor), x);
    return;
  }
  if (mixer_.norm == LinearNorm::sum) {
    double sum = 0;
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
    if (!mix(layer, sequence)) return false;
    if (!pass_.continues()) decays_.keep_beta(layer, sequence);
  }
  return true;
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
  arguments.beta = decays_.beta(sequence);
  arguments.delta_rule = mixer_.is_delta_rule();
  arguments.state = pass_.has_states() ? pass_.layer_state(layer, sequence).recurrent.data() : state_.data();
  arguments.output = pass_.memory().attended.data() + sequence * length_ * mixer_.output_size();
  arguments.output_stride = mixer_.output_size();
  const kernels::Status status = kernels::cpu::linear_mixing(arguments, pass_.team(), pass_.job().stop);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(fmt::format("[linear_mixing] {} heads of {} and {} over {} positions are not supported",
                                 mixer_.heads, mixer_.key_dim, mixer_.value_dim, length_));
  }
  return status == kernels::Status::ok;
}

bool LinearCpu::project_output(int layer) {
  pass_.find_cut_heads(layer);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).output, mixer_.output_size());
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    const std::int64_t size = mixer_.output_size();
    float* const mixed = pass_.memory().attended.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      finish(layer, row, mixed + row * size);
      pass_.cut_heads(row, mixer_.value_dim, mixed + row * size);
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
  const float* const gate = gate_.data() + row * size;
  if (mixer_.gate == LinearGate::before_norm) cpu_steps::multiply_silu(gate, size, mixed);
  if (mixer_.norm_size > 0) {
    const bool shared = std::ssize(weights.output_norm) == mixer_.norm_size;
    for (std::int64_t first = 0; first < size; first += mixer_.norm_size) {
      cpu_steps::rms_norm(mixed + first, weights.output_norm.data() + (shared ? 0 : first), mixer_.norm_size,
                          static_cast<float>(mixer_.norm_epsilon), mixed + first);
    }
  }
  if (mixer_.gate == LinearGate::after_norm) cpu_steps::multiply_silu(gate, size, mixed);
}

}  // namespace foxscope
