#include "backend/model/layer/cpu/rwkv7_cpu.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/linear_mixing.h"

namespace foxscope {
namespace {

/// The parts in the order of LayerWeights::shift.
enum ShiftedPart : std::int64_t { query_part, decay_part, key_part, value_part, erase_part, gate_part };

void hyperbolic_tangents(std::int64_t size, float* x) {
  for (std::int64_t n = 0; n < size; ++n) x[n] = std::tanh(x[n]);
}

void leave_as_it_is(std::int64_t /*size*/, float* /*x*/) {}

}  // namespace

struct Rwkv7Cpu::Parts {
  std::int64_t count;
  const float* normed;                 ///< [count, D]
  std::vector<const float*> previous;  ///< [count] norm(x) of the position before; null: 0
  float* mixed;                        ///< [count, D] what the part at hand reads
  float* low;                          ///< [count, the highest rank]
};

Rwkv7Cpu::Rwkv7Cpu(CpuPass& pass)
    : pass_(pass),
      mixer_(*pass.config().linear),
      length_(pass.length()),
      hidden_(pass.hidden()),
      decays_(pass),
      erase_read_(index_of(pass.rows() * hidden_)),
      erase_write_(erase_read_.size()),
      gate_(erase_read_.size()),
      first_values_(erase_read_.size()) {
  const std::int64_t rank = std::max({mixer_.decay_rank, mixer_.erase_rank, mixer_.value_rank, mixer_.gate_rank});
  pass.need({.normed = hidden_, .wide = 3 * hidden_ + rank, .more_normed = 1, .output = hidden_});
}

bool Rwkv7Cpu::project(int layer) {
  CpuWorkspace& memory = pass_.memory();
  pass_.find_places(TraceArray::query, layer, hidden_ * length_, memory.query, queries_);
  pass_.find_places(TraceArray::key, layer, hidden_ * length_, memory.key, keys_);
  pass_.find_places(TraceArray::value, layer, hidden_ * length_, memory.value, values_);
  decays_.begin_layer(layer);
  norm_embedding(layer);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).projection, hidden_);
  return pass_.for_rows([&](const CpuPass::Rows& rows) { project_rows(layer, rows); });
}

/// The first layer's x is the norm of the embedding.
void Rwkv7Cpu::norm_embedding(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  if (weights.pre_norm.empty()) return;
  pass_.for_rows([&](const CpuPass::Rows& rows) {
    float* const normed = rows.scratch.normed.data();
    pass_.norm(weights.pre_norm, weights.pre_norm_bias, rows.begin, rows.end, normed);
    std::copy_n(normed, rows.count() * hidden_, pass_.memory().residual.data() + rows.begin * hidden_);
  });
}

void Rwkv7Cpu::project_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t first = rows.begin % length_ > 0 ? rows.begin - 1 : rows.begin;
  float* const normed = rows.scratch.normed.data();
  float* const wide = rows.scratch.wide.data();
  const std::int64_t size = rows.count() * hidden_;
  pass_.norm_input(layer, first, rows.end, normed);
  Parts parts{rows.count(), normed + (rows.begin - first) * hidden_, {}, wide, wide + 3 * size};
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* before = normed + (row - first - 1) * hidden_;
    if (row % length_ == 0) before = pass_.continues() ? pass_.layer_state(layer, row).window.data() : nullptr;
    parts.previous.push_back(before);
  }
  float* const made = wide + size;
  float* const more = made + size;
  const auto by_heads = [&](const float* from, const std::vector<float*>& to) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t head = 0; head < mixer_.heads; ++head) {
        std::copy_n(from + (row - rows.begin) * hidden_ + head * mixer_.key_dim, mixer_.key_dim,
                    to[index_of(row / length_)] + (head * length_ + row % length_) * mixer_.key_dim);
      }
    }
  };
  mix(layer, query_part, parts);
  multiply(parts, weights.projection.data(), made);
  by_heads(made, queries_);
  mix(layer, decay_part, parts);
  raise(parts, weights.decay_down, weights.decay_up, mixer_.decay_rank, hyperbolic_tangents, made);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t head = 0; head < mixer_.heads; ++head) {
      decays_.split_channels(layer, row, made + (row - rows.begin) * hidden_ + head * mixer_.key_dim, head, nullptr);
    }
  }
  mix(layer, erase_part, parts);
  raise(parts, weights.erase_down, weights.erase_up, mixer_.erase_rank, leave_as_it_is, more);
  mix(layer, key_part, parts);
  multiply(parts, weights.projection.data() + hidden_ * hidden_, made);
  make_keys(layer, rows, made, more);
  mix(layer, value_part, parts);
  multiply(parts, weights.projection.data() + 2 * hidden_ * hidden_, made);
  if (layer > 0) raise(parts, weights.value_down, weights.value_up, mixer_.value_rank, leave_as_it_is, more);
  make_values(layer, rows, made, more);
  by_heads(made, values_);
  mix(layer, gate_part, parts);
  raise(parts, weights.gate_down, weights.output_gate, mixer_.gate_rank, cpu_steps::sigmoids,
        gate_.data() + rows.begin * hidden_);
  // A row that reads its state has done so.
  for (std::int64_t row = rows.begin; row < rows.end && pass_.has_states(); ++row) {
    if (row % length_ != length_ - 1) continue;
    std::copy_n(parts.normed + (row - rows.begin) * hidden_, hidden_,
                pass_.layer_state(layer, row / length_).window.data());
  }
}

/// Makes the rows that a part of the projection reads.
void Rwkv7Cpu::mix(int layer, std::int64_t part, const Parts& parts) const {
  const float* const share = pass_.weights(layer).shift.data() + part * hidden_;
  for (std::int64_t row = 0; row < parts.count; ++row) {
    const float* const own = parts.normed + row * hidden_;
    const float* const before = parts.previous[index_of(row)];
    float* const to = parts.mixed + row * hidden_;
    for (std::int64_t n = 0; n < hidden_; ++n) {
      to[n] = own[n] + ((before == nullptr ? 0.0F : before[n]) - own[n]) * share[n];
    }
  }
}

/// to = W x.  @param weight  [D, D]
void Rwkv7Cpu::multiply(const Parts& parts, const float* weight, float* to) {
  pass_.multiply({.rows = parts.count,
                  .columns = hidden_,
                  .depth = hidden_,
                  .in = parts.mixed,
                  .in_stride = hidden_,
                  .weight = weight,
                  .out = to,
                  .out_stride = hidden_});
}

/// to = W_2 act(W_1 x).
void Rwkv7Cpu::raise(const Parts& parts, const FloatArray& down, const FloatArray& up, std::int64_t rank,
                     void (*activate)(std::int64_t size, float* x), float* to) {
  pass_.multiply({.rows = parts.count,
                  .columns = rank,
                  .depth = hidden_,
                  .in = parts.mixed,
                  .in_stride = hidden_,
                  .weight = down.data(),
                  .out = parts.low,
                  .out_stride = rank});
  activate(parts.count * rank, parts.low);
  pass_.multiply({.rows = parts.count,
                  .columns = hidden_,
                  .depth = rank,
                  .in = parts.low,
                  .in_stride = rank,
                  .weight = up.data(),
                  .out = to,
                  .out_stride = hidden_});
}

/// Keys, and e and b of what is erased.
/// @param keys  [rows, D]
/// @param a     [rows, D] its logits without their bias
void Rwkv7Cpu::make_keys(int layer, const CpuPass::Rows& rows, const float* keys, float* a) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t dim = mixer_.key_dim;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* const key = keys + (row - rows.begin) * hidden_;
    float* const own = a + (row - rows.begin) * hidden_;
    cpu_steps::add(weights.erase_bias.data(), hidden_, own);
    cpu_steps::sigmoids(hidden_, own);
    for (std::int64_t head = 0; head < mixer_.heads; ++head) {
      const std::int64_t first = head * dim;
      const std::int64_t at = ((row / length_ * mixer_.heads + head) * length_ + row % length_) * dim;
      float* const read = erase_read_.data() + at;
      float* const write = erase_write_.data() + at;
      float* const to = keys_[index_of(row / length_)] + (head * length_ + row % length_) * dim;
      for (std::int64_t n = 0; n < dim; ++n) read[n] = key[first + n] * weights.unit_key[index_of(first + n)];
      cpu_steps::l2_norm(dim, static_cast<float>(mixer_.unit_key_epsilon), -1, read);
      for (std::int64_t n = 0; n < dim; ++n) {
        write[n] = -read[n] * own[first + n];
        to[n] = key[first + n] * (1 + (own[first + n] - 1) * weights.key_share[index_of(first + n)]);
      }
    }
  }
}

/// Values, of which layers behind the first take a share from the first's.
/// @param values  [rows, D] in place
/// @param share   [rows, D] its logits without their bias; unread in the first layer
void Rwkv7Cpu::make_values(int layer, const CpuPass::Rows& rows, float* values, float* share) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t size = rows.count() * hidden_;
  float* const first = first_values_.data() + rows.begin * hidden_;
  if (layer == 0) {
    std::copy_n(values, size, first);
    return;
  }
  CpuPass::add_to_rows(weights.value_bias, rows.count(), share);
  cpu_steps::sigmoids(size, share);
  for (std::int64_t n = 0; n < size; ++n) values[n] += (first[n] - values[n]) * share[n];
}

bool Rwkv7Cpu::attend(int layer) {
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    if (!mix_positions(layer, sequence)) return false;
    if (pass_.continues()) continue;
    const std::int64_t first = sequence * hidden_ * length_;
    pass_.probes()[index_of(sequence)].take(TraceArray::erase_read, layer, erase_read_.data() + first);
    pass_.probes()[index_of(sequence)].take(TraceArray::erase_write, layer, erase_write_.data() + first);
  }
  return true;
}

bool Rwkv7Cpu::mix_positions(int layer, std::int64_t sequence) {
  if (!pass_.has_states()) state_.assign(index_of(mixer_.state_size()), 0.0F);
  kernels::cpu::LinearMixing arguments;
  arguments.heads = arguments.query_heads = arguments.key_heads = arguments.value_heads = mixer_.heads;
  arguments.length = length_;
  arguments.key_dim = mixer_.key_dim;
  arguments.value_dim = mixer_.value_dim;
  arguments.query = queries_[index_of(sequence)];
  arguments.key = keys_[index_of(sequence)];
  arguments.value = values_[index_of(sequence)];
  arguments.channel_decay = decays_.channel_decay(sequence);
  arguments.erase_read = erase_read_.data() + sequence * hidden_ * length_;
  arguments.erase_write = erase_write_.data() + sequence * hidden_ * length_;
  arguments.state = pass_.has_states() ? pass_.layer_state(layer, sequence).recurrent.data() : state_.data();
  arguments.output = pass_.memory().attended.data() + sequence * length_ * hidden_;
  arguments.output_stride = hidden_;
  const kernels::Status status = kernels::cpu::linear_mixing(arguments, pass_.team(), pass_.job().stop);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(fmt::format("[linear_mixing] {} heads of {} over {} positions are not supported", mixer_.heads,
                                 mixer_.key_dim, length_));
  }
  return status == kernels::Status::ok;
}

bool Rwkv7Cpu::project_output(int layer) {
  const LayerWeights& weights = pass_.weights(layer);
  pass_.find_cut_heads(layer);
  pass_.pack(0, pass_.rows(), weights.output, hidden_);
  return pass_.for_rows([&](const CpuPass::Rows& rows) {
    float* const mixed = pass_.memory().attended.data();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      finish(layer, row, mixed + row * hidden_);
      pass_.cut_heads(row, mixer_.value_dim, mixed + row * hidden_);
    }
    pass_.add_to_residual(rows, {mixed + rows.begin * hidden_, hidden_, hidden_}, weights.output, weights.output_bias);
  });
}

/// g (norm(y) + v (sum of q k bonus)), in place.  @param mixed  [D]
void Rwkv7Cpu::finish(int layer, std::int64_t row, float* mixed) const {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t dim = mixer_.key_dim;
  const std::size_t sequence = index_of(row / length_);
  const float* const gate = gate_.data() + row * hidden_;
  for (std::int64_t head = 0; head < mixer_.heads; ++head) {
    float* const own = mixed + head * dim;
    const std::int64_t at = (head * length_ + row % length_) * dim;
    cpu_steps::layer_norm(own, weights.output_norm.data() + head * dim, weights.output_norm_bias.data() + head * dim,
                          dim, static_cast<float>(mixer_.norm_epsilon), own);
    float sum = 0;
    for (std::int64_t n = 0; n < dim; ++n) {
      sum += queries_[sequence][at + n] * keys_[sequence][at + n] * weights.bonus[index_of(head * dim + n)];
    }
    for (std::int64_t n = 0; n < dim; ++n) own[n] = (own[n] + sum * values_[sequence][at + n]) * gate[head * dim + n];
  }
}

}  // namespace foxscope
