#include "backend/model/layer/cpu/attention_cpu.h"

#include <algorithm>
#include <cassert>
#include <span>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log_sigmoid.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cpu/gate_scan.h"

namespace foxscope {

AttentionCpu::AttentionCpu(CpuPass& pass)
    : pass_(pass),
      config_(pass.config()),
      length_(pass.length()),
      head_dim_(config_.head_dim),
      columns_(config_),
      projected_(config_.latent ? config_.latent_columns() : columns_.count),
      zeros_(index_of(columns_.count)) {
  if (config_.latent) {
    const LatentKeys& latent = *config_.latent;
    const std::int64_t raised = config_.heads * std::int64_t{latent.own_dim + latent.value_dim};
    pass_.need({.wide = std::max(projected_ + columns_.count + raised, config_.attended_size())});
  }
  if (config_.path) {
    path_.emplace(pass);
    const std::int64_t before = path_->rows_before();
    pass_.need(
        {.normed = pass.hidden(), .wide = columns_.count + path_->wide(), .more_normed = before, .more_wide = before});
  }
  // Shifts read the projection of one row more.
  pass.need({.normed = (config_.side_attention ? 2 : 1) * pass.hidden(),
             .wide = std::max(columns_.count, config_.query_size()),
             .more_normed = 1,
             .more_wide = 1,
             .output = config_.query_size()});
}

void AttentionCpu::begin() {
  rotary_.clear();
  make_rotary_tables();
}

void AttentionCpu::make_rotary_tables() {
  std::vector<TextPosition> positions;
  const std::span<const std::int64_t> lengths = pass_.input().lengths;
  for (const Rotary& rotary : config_.rotaries) {
    positions.clear();
    if (!pass_.by_columns() && !rotary.depends_on_length()) {
      rotary_.emplace_back(rotary, length_);
      continue;
    }
    for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
      const std::int64_t first = pass_.first_position(sequence);
      const std::int64_t length = first + (lengths.empty() ? length_ : lengths[index_of(sequence)]);
      for (std::int64_t n = 0; n < length_; ++n) positions.push_back({first + n, length});
    }
    rotary_.emplace_back(rotary, positions);
  }
}

bool AttentionCpu::project(int layer) {
  const std::int64_t size = length_ * head_dim_;
  CpuWorkspace& memory = pass_.memory();
  pass_.find_places(TraceArray::query, layer, config_.heads * size, memory.query, queries_);
  pass_.find_places(TraceArray::key, layer, config_.key_heads * size, memory.key, keys_);
  pass_.find_places(TraceArray::value, layer, config_.key_heads * size, memory.value, values_);
  log_gate_.resize(pass_.gated(layer) ? index_of(config_.heads * pass_.rows()) : 0);
  cumulative_.resize(log_gate_.size());
  pass_.pack(0, pass_.rows(), pass_.weights(layer).projection, config_.input_size(layer));
  return pass_.for_rows([&](const CpuPass::Rows& rows) { project_rows(layer, rows); });
}

/// Queries, keys, values and log f. The shift needs the projection of the row before, and a convolution of some rows:
/// it is computed once more, so that chunks do not wait for each other.
void AttentionCpu::project_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const bool shifted = config_.key_shift || config_.value_shift;
  const std::int64_t before_row = path_ ? path_->rows_before() : shifted ? 1 : 0;
  const std::int64_t first = rows.begin - std::min(before_row, rows.begin % length_);
  float* wide = rows.scratch.wide.data();
  pass_.norm_input(layer, first, rows.end, rows.scratch.normed.data());
  pass_.multiply({.rows = rows.end - first,
                  .columns = projected_,
                  .depth = config_.input_size(layer),
                  .in = rows.scratch.normed.data(),
                  .in_stride = config_.input_size(layer),
                  .weight = weights.projection.data(),
                  .out = wide,
                  .out_stride = projected_});
  CpuPass::add_to_rows(weights.projection_bias, rows.end - first, wide);
  if (config_.latent) {
    raise_latent(layer, rows.count(), wide);
    wide += rows.count() * projected_;
  }
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* projected = wide + (row - first) * columns_.count;
    const float* before = projected - columns_.count;
    if (row % length_ == 0) before = pass_.continues() ? pass_.layer_state(layer, row).previous.data() : zeros_.data();
    cpu_rows::split_heads(config_, weights, projected, before, heads_of(layer, row));
  }
  if (path_) path_->split(layer, rows, first, wide, wide + (rows.end - first) * columns_.count);
  if (!pass_.has_states()) return;
  for (std::int64_t sequence = rows.begin / length_; sequence < rows.end / length_; ++sequence) {
    const float* last = wide + ((sequence + 1) * length_ - 1 - first) * columns_.count;
    std::copy(last, last + columns_.count, pass_.layer_state(layer, sequence).previous.begin());
  }
}

/// Queries, keys and values of some rows behind their projection, as ProjectionColumns lays them out (LatentKeys).
/// @param projected  [count, latent_columns()]
void AttentionCpu::raise_latent(int layer, std::int64_t count, float* projected) {
  const LatentKeys& latent = *config_.latent;
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t queries = config_.query_size();
  const std::int64_t each = latent.own_dim + latent.value_dim;
  float* const rows = projected + count * projected_;
  float* const raised = rows + count * columns_.count;
  for (std::int64_t row = 0; row < count; ++row) {
    float* const low = projected + row * projected_ + queries;
    cpu_steps::rms_norm(low, weights.latent_norm.data(), latent.rank, static_cast<float>(latent.epsilon), low);
  }
  pass_.multiply({.rows = count,
                  .columns = config_.heads * each,
                  .depth = latent.rank,
                  .in = projected + queries,
                  .in_stride = projected_,
                  .weight = weights.latent_up.data(),
                  .out = raised,
                  .out_stride = config_.heads * each});
  for (std::int64_t row = 0; row < count; ++row) {
    const float* const own = projected + row * projected_;
    float* const to = rows + row * columns_.count;
    std::copy_n(own, queries, to);
    for (std::int64_t head = 0; head < config_.heads; ++head) {
      const float* const made = raised + (row * config_.heads + head) * each;
      float* const key = to + columns_.key + head * head_dim_;
      float* const value = to + columns_.value + head * head_dim_;
      std::copy_n(made, latent.own_dim, key);
      std::copy_n(own + queries + latent.rank, latent.shared_dim, key + latent.own_dim);
      std::copy_n(made + latent.own_dim, latent.value_dim, value);
      std::fill(value + latent.value_dim, value + head_dim_, 0.0F);
    }
  }
}

cpu_rows::HeadRows AttentionCpu::heads_of(int layer, std::int64_t row) {
  const std::int64_t sequence = row / length_;
  const std::int64_t position = row % length_;
  cpu_rows::HeadRows heads;
  heads.query = queries_[index_of(sequence)] + position * head_dim_;
  heads.key = keys_[index_of(sequence)] + position * head_dim_;
  heads.value = values_[index_of(sequence)] + position * head_dim_;
  heads.head_stride = length_ * head_dim_;
  if (!log_gate_.empty()) heads.log_gate = log_gate_.data() + sequence * config_.heads * length_ + position;
  heads.gate_stride = length_;
  const int which = config_.attention[index_of(layer)].rotary;
  if (which < 0) return heads;
  const RotaryTable& table = rotary_[index_of(which)];
  const bool by_text = pass_.by_columns() || config_.rotaries[index_of(which)].depends_on_length();
  const std::int64_t at = by_text ? row : position;
  heads.rotary_dim = 2 * table.half;
  heads.cosine = table.cosine.data() + at * table.half;
  heads.sine = table.sine.data() + at * table.half;
  if (!table.query_factor.empty()) heads.query_factor = table.query_factor[index_of(at)];
  return heads;
}

/// Log f where it does not depend on data, what the probes make of it, and its sum.
void AttentionCpu::sum_gates(int layer) {
  const FloatArray& constant = pass_.weights(layer).constant_gate;
  assert(constant.empty() || constant.size() == index_of(config_.heads));
  if (!config_.gated()) std::ranges::fill(log_gate_, 0.0);
  const std::size_t size = log_gate_.size() / index_of(pass_.batch());
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    const std::size_t first = index_of(sequence) * size;
    double* const log_gate = log_gate_.data() + first;
    for (std::size_t head = 0; head < constant.size(); ++head) {
      std::fill_n(log_gate + head * index_of(length_), length_, log_sigmoid(constant[head]));
    }
    const Probe& probe = pass_.probes()[index_of(sequence)];
    if (size > 0) probe.change_gates(layer, config_.heads, pass_.first_position(sequence), length_, log_gate);
    if (pass_.continues()) {
      std::vector<GateHistory>& history = pass_.layer_state(layer, sequence).gates;
      assert(history.size() == size);
      for (std::size_t head = 0; head < history.size(); ++head) {
        history[head].append(log_gate[head]);
        cumulative_[first + head] = history[head].last();
      }
    } else if (size > 0) {
      kernels::cpu::cumulative_log_gate(log_gate, config_.heads, length_, cumulative_.data() + first);
    }
    probe.take_gates(layer, std::span(cumulative_).subspan(first, size));
  }
}

/// Attends from each position to all keys up to it; the state takes the keys up.
bool AttentionCpu::attend(int layer) {
  const std::int64_t batch = pass_.batch();
  if (pass_.continues()) {
    attend_next(layer);
  } else {
    // Heads of all sequences at once give the threads more to share.
    const bool recorded =
        std::ranges::any_of(pass_.probes(), [](const Probe& probe) { return probe.recorder() != nullptr; });
    const std::int64_t count = recorded ? 1 : batch;
    for (std::int64_t first = 0; first < batch; first += count) {
      if (!attend_whole(layer, first, count)) return false;
    }
    for (std::int64_t sequence = 0; pass_.has_states() && sequence < batch; ++sequence) {
      if (!start_cache(layer, sequence)) return false;
    }
  }
  for (std::int64_t sequence = 0; pass_.has_states() && sequence < batch; ++sequence) {
    pass_.cpu_state(sequence).drop_keys(layer, config_.attention[index_of(layer)].window_size,
                                        pass_.weights(layer).logit_bound);
  }
  return true;
}

kernels::cpu::ForgettingAttention AttentionCpu::arguments_of(int layer, std::int64_t first, std::int64_t count) {
  const auto strides = [&](std::int64_t heads) {
    return kernels::cpu::AttentionStrides{heads * length_ * head_dim_, length_ * head_dim_, head_dim_};
  };
  const Probe& probe = pass_.probes()[index_of(first)];
  log_normalizer_.resize(probe.recorder() == nullptr ? 0 : index_of(config_.heads * length_));
  without_gate_.resize(probe.keeps(Keep::ungated) ? log_normalizer_.size() : 0);
  kernels::cpu::ForgettingAttention arguments;
  arguments.batch = count;
  arguments.heads = config_.heads;
  arguments.key_heads = config_.key_heads;
  arguments.length = length_;
  arguments.head_dim = head_dim_;
  arguments.query = queries_[index_of(first)];
  arguments.key = keys_[index_of(first)];
  arguments.value = values_[index_of(first)];
  arguments.query_strides = strides(config_.heads);
  arguments.key_strides = arguments.value_strides = strides(config_.key_heads);
  if (!cumulative_.empty()) {
    arguments.cumulative_log_gate = cumulative_.data() + first * config_.heads * length_;
  }
  arguments.output = pass_.memory().attended.data() + first * length_ * config_.query_size();
  arguments.output_strides = {length_ * config_.query_size(), head_dim_, config_.query_size()};
  arguments.log_normalizer = log_normalizer_.empty() ? nullptr : log_normalizer_.data();
  arguments.log_normalizer_without_gate = without_gate_.empty() ? nullptr : without_gate_.data();
  arguments.scale = softmax_scale<float>(head_dim_);
  arguments.window_size = config_.attention[index_of(layer)].window_size;
  arguments.logit_cap = static_cast<float>(config_.attention_cap);
  if (config_.sinks) arguments.sink = pass_.weights(layer).sinks.data();
  arguments.pruning_tolerance = pass_.input().pruning_tolerance;
  return arguments;
}

bool AttentionCpu::attend_whole(int layer, std::int64_t first, std::int64_t count) {
  const kernels::cpu::ForgettingAttention arguments = arguments_of(layer, first, count);
  const Probe& probe = pass_.probes()[index_of(first)];
  if (path_) {
    if (!path_->attend(layer, first, arguments)) return false;
    if (probe.recorder() != nullptr) probe.take_normalizers(layer, log_normalizer_, without_gate_);
    return true;
  }
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(arguments, pass_.team(), pass_.job().stop, &blocks);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(
        fmt::format("[forgetting_attention] {} heads of {} over {} positions with pruning tolerance {} are "
                    "not supported",
                    config_.heads, head_dim_, length_, arguments.pruning_tolerance));
  }
  assert(blocks.skipped >= 0 && blocks.skipped <= blocks.total);
  pass_.report().attention_blocks += blocks.total;
  pass_.report().skipped_blocks += blocks.skipped;
  if (status != kernels::Status::ok) return false;
  if (probe.recorder() != nullptr) probe.take_normalizers(layer, log_normalizer_, without_gate_);
  if (config_.sinks && probe.keeps(Keep::rows))
    probe.take(TraceArray::sink_logit, layer, pass_.weights(layer).sinks.data());
  return true;
}

/// The state takes keys, values and gates of a whole text up.
bool AttentionCpu::start_cache(int layer, std::int64_t sequence) {
  const float* keys = keys_[index_of(sequence)];
  FloatArray passed;
  if (path_) {
    passed = path_->keys_at_end(sequence, keys);
    if (passed.empty()) return false;
    keys = passed.data();
  }
  const float* const values = values_[index_of(sequence)];
  const std::size_t size = cumulative_.size() / index_of(pass_.batch());
  const auto cumulative = std::span(cumulative_).subspan(index_of(sequence) * size, size);
  CpuState::Layer& cache = pass_.layer_state(layer, sequence);
  assert(cache.gates.size() * index_of(length_) == cumulative.size());
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].start(cumulative.subspan(head * index_of(length_), index_of(length_)));
  }
  pass_.team().run(config_.key_heads, [&](std::int64_t head, int /*thread*/) {
    KeyValuePages& pages = cache.heads[index_of(head)];
    for (std::int64_t row = 0; row < length_; ++row) {
      const std::int64_t at = (head * length_ + row) * head_dim_;
      pages.append(keys + at, values + at);
    }
  });
  return true;
}

/// One position of each sequence against the keys that its state holds.
void AttentionCpu::attend_next(int layer) {
  const std::int64_t heads = config_.heads;
  const std::int64_t group = heads / config_.key_heads;
  const std::int64_t window = config_.attention[index_of(layer)].window_size;
  std::int64_t keys = 0;
  if (path_) path_->pass_cached(layer);
  for (std::int64_t sequence = 0; sequence < pass_.batch(); ++sequence) {
    CpuState::Layer& cache = pass_.layer_state(layer, sequence);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      assert(cache.heads[head].end() == pass_.first_position(sequence));
      const std::size_t at = head * index_of(head_dim_);
      cache.heads[head].append(keys_[index_of(sequence)] + at, values_[index_of(sequence)] + at);
    }
    keys += cache.heads.front().end();
  }
  pass_.share(pass_.batch() * heads, heads * head_dim_ * keys, [&](std::int64_t task) {
    const std::int64_t sequence = task / heads;
    const std::int64_t head = task % heads;
    const CpuState::Layer& cache = pass_.layer_state(layer, sequence);
    CachedAttention arguments;
    arguments.query = queries_[index_of(sequence)] + head * head_dim_;
    arguments.head_dim = head_dim_;
    arguments.scale = softmax_scale<float>(head_dim_);
    arguments.first = cache.first[index_of(head)];
    if (window > 0) arguments.first = std::max(arguments.first, pass_.first_position(sequence) - window + 1);
    arguments.logit_cap = static_cast<float>(config_.attention_cap);
    if (config_.sinks) arguments.sink = &pass_.weights(layer).sinks[index_of(head)];
    if (!cache.gates.empty()) arguments.gate = &cache.gates[index_of(head)];
    arguments.tolerance = pass_.cpu_state(sequence).skipped_share();
    attend_cached(arguments, cache.heads[index_of(head / group)], pass_.memory().attended.data() + task * head_dim_);
  });
}

bool AttentionCpu::project_output(int layer) {
  pass_.find_cut_heads(layer);
  pass_.pack(0, pass_.rows(), pass_.weights(layer).output, config_.attended_size());
  pass_.pack(1, pass_.rows(), pass_.weights(layer).output_gate, pass_.hidden());
  return pass_.for_rows([&](const CpuPass::Rows& rows) { project_output_rows(layer, rows); });
}

void AttentionCpu::project_output_rows(int layer, const CpuPass::Rows& rows) {
  const LayerWeights& weights = pass_.weights(layer);
  const std::int64_t size = config_.query_size();
  float* const gate = rows.scratch.wide.data();
  if (config_.output_gate) {
    pass_.norm_input(layer, rows.begin, rows.end, rows.scratch.normed.data());
    pass_.multiply({.rows = rows.count(),
                    .columns = size,
                    .depth = pass_.hidden(),
                    .in = rows.scratch.normed.data(),
                    .in_stride = pass_.hidden(),
                    .weight = weights.output_gate.data(),
                    .out = gate,
                    .out_stride = size});
  }
  float* const attended = pass_.memory().attended.data();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    cpu_rows::norm_and_gate(config_, weights, gate + (row - rows.begin) * size, attended + row * size);
    pass_.cut_heads(row, head_dim_, attended + row * size);
  }
  if (config_.latent) {
    // Values without what they were filled up by.
    const std::int64_t dim = config_.latent->value_dim;
    for (std::int64_t head = 0; head < rows.count() * config_.heads; ++head) {
      std::copy_n(attended + rows.begin * size + head * head_dim_, dim, gate + head * dim);
    }
    const std::int64_t whole = config_.attended_size();
    pass_.add_to_residual(rows, {gate, whole, whole}, weights.output, weights.output_bias);
    return;
  }
  pass_.add_to_residual(rows, {attended + rows.begin * size, size, size}, weights.output, weights.output_bias,
                        weights.attention_post_norm);
}

}  // namespace foxscope
