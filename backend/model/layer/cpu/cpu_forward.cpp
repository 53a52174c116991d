#include "backend/model/layer/cpu/cpu_forward.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_steps.h"
#include "kernels/cpu/forgetting_attention.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
/// For fewer no thread is woken.
constexpr std::int64_t kFewestRows = 16;
/// Rows up to which threads share the columns.
constexpr std::int64_t kRowsByColumns = 64;
/// Columns of the vocabulary at once: a block of logits stays in a core's cache.
constexpr std::int64_t kVocabularyBlock = 1024;
/// Numbers of a matrix that one task reads, and fewer than which are not worth waking the other threads for.
constexpr std::int64_t kTaskNumbers = 1 << 16;
constexpr std::int64_t kSharedNumbers = 1 << 18;
/// Rows from which a matrix is laid out anew for each step, and numbers up to which it is.
constexpr std::int64_t kRowsToPack = 128;
constexpr std::int64_t kMostPacked = 1 << 24;
/// Rows up to which a pass leaves its memory to the next one.
constexpr std::int64_t kMostKeptRows = 4096;
/// Numbers that are read while an exponential is taken.
constexpr std::int64_t kExponentialNumbers = 8;

using Into = kernels::cpu::MatrixProduct::Into;

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

CpuForward::CpuForward(const ModelConfig& config, const ModelWeights& weights, std::int64_t batch, std::int64_t length,
                       KeptPassMemory& kept)
    : Forward(config, batch, length),
      weights_(weights),
      by_columns_(length == 1 && batch <= kRowsByColumns),
      hidden_(config.hidden_size),
      head_dim_(config.head_dim),
      columns_(config),
      kept_(length > 1 && rows() <= kMostKeptRows ? &kept : nullptr),
      memory_(kept_ != nullptr ? kept_->take() : std::make_unique<CpuPassMemory>()),
      queries_(floats(batch)),
      keys_(floats(batch)),
      values_(floats(batch)),
      cut_heads_(floats(batch)),
      loss_(floats(rows())),
      logits_(floats(batch)),
      zeros_(floats(columns_.count)) {
  const std::int64_t threads = by_columns_ ? 1 : team_.threads();
  chunk_ = rows();
  if (!by_columns_) {
    // As many chunks for each thread, and few: each turns the weights once more.
    const std::int64_t turns = (rows() + threads * kRowsAtOnce - 1) / (threads * kRowsAtOnce);
    chunk_ = std::max(kFewestRows, (rows() + threads * turns - 1) / (threads * turns));
  }
  if (config.linear) {
    linear_.emplace(config, batch, length);
    rows_before_ = std::max<std::int64_t>(1, linear_->rows_before());
    zeros_.resize(std::max(zeros_.size(), floats(linear_->columns().count)));
  }
  const std::int64_t widest =
      std::max({columns_.count, linear_ ? linear_->columns().count : std::int64_t{0}, config.query_size(),
                2 * config.widest_intermediate(), std::min(kVocabularyBlock, config.vocabulary_size)});
  const std::int64_t mixed = config.linear ? config.linear->output_size() : 0;
  CpuPassMemory::grow(memory_->residual, floats(rows() * hidden_));
  CpuPassMemory::grow(memory_->attended, floats(rows() * std::max({hidden_, config.query_size(), mixed})));
  if (std::ssize(memory_->scratch) < threads) memory_->scratch.resize(floats(threads));
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    Scratch& scratch = memory_->scratch[floats(thread)];
    std::int64_t depth = hidden_;
    if (linear_) depth = std::max({depth, linear_->mixer().key_size(), linear_->mixer().selection_size()});
    CpuPassMemory::grow(scratch.normed, floats((chunk_ + rows_before_) * depth));
    CpuPassMemory::grow(scratch.wide, floats((chunk_ + rows_before_ + 1) * widest));
  }
}

CpuForward::~CpuForward() {
  if (kept_ != nullptr) kept_->keep(std::move(memory_));
}

CpuState& CpuForward::state_of(std::int64_t sequence) const { return static_cast<CpuState&>(state(sequence)); }

CpuState::Layer& CpuForward::cache_of(int layer, std::int64_t sequence) const {
  return state_of(sequence).layer(layer);
}

void CpuForward::begin() {
  packed_ = {};
  report().attention_kernel = linear_ && !config().is_hybrid() ? "cpu-chunked" : "cpu-tiled";
  if (by_columns_) {
    std::vector<std::int64_t> positions;
    for (std::int64_t sequence = 0; sequence < batch(); ++sequence) positions.push_back(first_position(sequence));
    rotary_.emplace(config(), positions);
  } else {
    rotary_.emplace(config(), 0, length());
  }
  if (!input().hidden.empty()) {
    std::ranges::copy(input().hidden, memory_->residual.begin());
    return;
  }
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::int32_t id = input().ids[floats(row)];
    assert(id >= 0 && id < config().vocabulary_size);
    const float* from = weights_.embedding.data() + id * hidden_;
    float* const to = memory_->residual.data() + row * hidden_;
    std::copy(from, from + hidden_, to);
    if (weights_.positions.empty()) continue;
    const std::int64_t position = first_position(row / length()) + row % length();
    assert(position < config().learned_positions);
    cpu_steps::add(weights_.positions.data() + position * hidden_, hidden_, to);
  }
}

void CpuForward::keep_hidden(int layer) {
  const auto size = floats(length() * hidden_);
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    const FloatArray& rows = layer < config().layers ? memory_->residual : memory_->attended;
    probes()[sequence].take_hidden(layer, hidden_, std::span(rows).subspan(sequence * size, size));
  }
}

void CpuForward::find_places(TraceArray array, int layer, std::int64_t numbers, FloatArray& own,
                             std::vector<float*>& places) {
  for (std::size_t sequence = 0; sequence < places.size(); ++sequence) {
    places[sequence] = probes()[sequence].stored(array, layer);
    if (places[sequence] != nullptr) continue;
    CpuPassMemory::grow(own, floats(batch() * numbers));
    places[sequence] = own.data() + sequence * floats(numbers);
  }
}

bool CpuForward::project(int layer) {
  if (config().is_linear(layer)) return project_linear(layer);
  const std::int64_t size = length() * head_dim_;
  find_places(TraceArray::query, layer, config().heads * size, memory_->query, queries_);
  find_places(TraceArray::key, layer, config().key_heads * size, memory_->key, keys_);
  find_places(TraceArray::value, layer, config().key_heads * size, memory_->value, values_);
  log_gate_.resize(gated(layer) ? floats(config().heads * rows()) : 0);
  cumulative_.resize(log_gate_.size());
  pack(0, rows(), weights_of(layer).projection, hidden_);
  return for_rows([&](const Rows& rows) { project_rows(layer, rows); });
}

/// Queries, keys, values and log f. The shift needs the projection of the row before: it is computed once more, so that
/// chunks do not wait for each other.
void CpuForward::project_rows(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const bool shifted = config().key_shift || config().value_shift;
  const std::int64_t first = shifted && rows.begin % length() > 0 ? rows.begin - 1 : rows.begin;
  float* const wide = rows.scratch.wide.data();
  norm(weights.attention_norm, weights.attention_norm_bias, first, rows.end, rows.scratch.normed.data());
  multiply({.rows = rows.end - first,
            .columns = columns_.count,
            .depth = hidden_,
            .in = rows.scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights.projection.data(),
            .out = wide,
            .out_stride = columns_.count});
  add_to_rows(weights.projection_bias, rows.end - first, wide);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* projected = wide + (row - first) * columns_.count;
    const float* before = projected - columns_.count;
    if (row % length() == 0) before = continues() ? cache_of(layer, row).previous.data() : zeros_.data();
    cpu_rows::split_heads(config(), weights, projected, before, heads_of(row));
  }
  if (!has_states()) return;
  for (std::int64_t sequence = rows.begin / length(); sequence < rows.end / length(); ++sequence) {
    const float* last = wide + ((sequence + 1) * length() - 1 - first) * columns_.count;
    std::copy(last, last + columns_.count, cache_of(layer, sequence).previous.begin());
  }
}

bool CpuForward::project_linear(int layer) {
  const LinearMixer& mixer = linear_->mixer();
  find_places(TraceArray::query, layer, mixer.query_size() * length(), memory_->query, queries_);
  find_places(TraceArray::key, layer, mixer.key_size() * length(), memory_->key, keys_);
  if (!mixer.selects()) find_places(TraceArray::value, layer, mixer.value_size() * length(), memory_->value, values_);
  linear_heads_.clear();
  for (std::size_t sequence = 0; sequence < queries_.size(); ++sequence) {
    float* const values = mixer.selects() ? nullptr : values_[sequence];
    linear_heads_.push_back({queries_[sequence], keys_[sequence], values});
  }
  linear_->begin_layer(layer, weights_of(layer), weights_.lower_bounds, linear_heads_);
  pack(0, rows(), weights_of(layer).projection, hidden_);
  return for_rows([&](const Rows& rows) { project_linear_rows(layer, rows); });
}

/// The convolution needs the projection of the rows before: they are computed once more, as those of shifts are.
void CpuForward::project_linear_rows(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const LinearMixer& mixer = linear_->mixer();
  const LinearColumns& columns = linear_->columns();
  const std::int64_t before = linear_->rows_before();
  const std::int64_t first = rows.begin - std::min(before, rows.begin % length());
  const std::int64_t count = rows.end - first;
  float* const normed = rows.scratch.normed.data();
  float* const wide = rows.scratch.wide.data();
  norm(weights.attention_norm, weights.attention_norm_bias, first, rows.end, normed);
  multiply({.rows = count,
            .columns = columns.count,
            .depth = hidden_,
            .in = normed,
            .in_stride = hidden_,
            .weight = weights.projection.data(),
            .out = wide,
            .out_stride = columns.count});
  add_to_rows(weights.projection_bias, count, wide);
  if (mixer.decay == LinearDecay::low_rank) {
    multiply({.rows = count,
              .columns = mixer.key_size(),
              .depth = mixer.decay_rank,
              .in = wide + columns.decay,
              .in_stride = columns.count,
              .weight = weights.decay_up.data(),
              .out = normed,
              .out_stride = mixer.key_size()});
  }
  float* const scratch = wide + count * columns.count;
  std::vector<const float*> taps(floats(before + 1));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t tap = 0; tap <= before; ++tap) {
      const std::int64_t back = before - tap;
      const float*& from = taps[floats(tap)];
      if (back <= row % length()) {
        from = wide + (row - back - first) * columns.count;
      } else {
        // The row is all that there is of its sequence.
        from = continues() ? cache_of(layer, row).window.data() + tap * columns.count : zeros_.data();
      }
    }
    linear_->split(row, taps, normed + (row - first) * mixer.key_size(), scratch);
  }
  if (mixer.selects()) select_rows(layer, rows);
  if (!has_states() || before == 0) return;
  for (std::int64_t sequence = rows.begin / length(); sequence < rows.end / length(); ++sequence) {
    keep_window(layer, sequence, wide + ((sequence + 1) * length() - 1 - first) * columns.count);
  }
}

/// What Mamba makes of its values behind the convolution: dt by way of a low rank, keys and queries.
void CpuForward::select_rows(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const LinearMixer& mixer = linear_->mixer();
  const std::int64_t size = mixer.selection_size();
  float* const selected = rows.scratch.normed.data();
  multiply({.rows = rows.count(),
            .columns = size,
            .depth = mixer.value_size(),
            .in = linear_->inputs(rows.begin),
            .in_stride = mixer.value_size(),
            .weight = weights.selection.data(),
            .out = selected,
            .out_stride = size});
  multiply({.rows = rows.count(),
            .columns = mixer.heads,
            .depth = mixer.decay_rank,
            .in = selected,
            .in_stride = size,
            .weight = weights.decay_up.data(),
            .out = linear_->steps(rows.begin),
            .out_stride = mixer.heads});
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    linear_->select(row, selected + (row - rows.begin) * size);
  }
}

/// The last rows of the projection, for the convolution of those to come.
/// @param last  the last row, behind those before it
void CpuForward::keep_window(int layer, std::int64_t sequence, const float* last) {
  FloatArray& window = cache_of(layer, sequence).window;
  const std::int64_t size = linear_->columns().count;
  const std::int64_t before = linear_->rows_before();
  const std::int64_t fresh = std::min(before, length());
  std::copy(window.begin() + fresh * size, window.end(), window.begin());
  std::copy_n(last - (fresh - 1) * size, fresh * size, window.begin() + (before - fresh) * size);
}

/// y of every position; the state takes them up.
bool CpuForward::mix_linear(int layer) {
  const std::int64_t size = linear_->mixer().output_size();
  for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
    float* const state = has_states() ? cache_of(layer, sequence).recurrent.data() : nullptr;
    float* const output = memory_->attended.data() + sequence * length() * size;
    if (!linear_->mix(sequence, state, output, team_, job())) return false;
    if (!continues()) linear_->keep(layer, sequence, probes()[floats(sequence)]);
  }
  return true;
}

/// Log f where it does not depend on data, what the probes make of it, and its sum.
void CpuForward::sum_gates(int layer) {
  if (config().is_linear(layer)) {
    linear_->sum_decays(layer, probes(), first_position(), team_);
    return;
  }
  const FloatArray& constant = weights_of(layer).constant_gate;
  assert(constant.empty() || constant.size() == floats(config().heads));
  if (!config().gated()) std::ranges::fill(log_gate_, 0.0);
  const std::size_t size = log_gate_.size() / floats(batch());
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    double* const log_gate = log_gate_.data() + sequence * size;
    for (std::size_t head = 0; head < constant.size(); ++head) {
      std::fill_n(log_gate + head * floats(length()), length(), cpu_steps::log_sigmoid(constant[head]));
    }
    const Probe& probe = probes()[sequence];
    const auto index = static_cast<std::int64_t>(sequence);
    if (size > 0) probe.change_gates(layer, config().heads, first_position(index), length(), log_gate);
    if (continues()) {
      std::vector<GateHistory>& history = cache_of(layer, index).gates;
      assert(history.size() == size);
      for (std::size_t head = 0; head < history.size(); ++head) {
        history[head].append(log_gate[head]);
        cumulative_[sequence * size + head] = history[head].last();
      }
    } else if (size > 0) {
      kernels::cpu::cumulative_log_gate(log_gate, config().heads, length(), cumulative_.data() + sequence * size);
    }
    probe.take_gates(layer, std::span(cumulative_).subspan(sequence * size, size));
  }
}

/// From all keys up to each position; the state takes them up.
bool CpuForward::attend(int layer) {
  if (config().is_linear(layer)) return mix_linear(layer);
  if (continues()) {
    attend_next(layer);
  } else {
    // Heads of all sequences at once give the threads more to share.
    const bool recorded = std::ranges::any_of(probes(), [](const Probe& probe) { return probe.recorder() != nullptr; });
    const std::int64_t count = recorded ? 1 : batch();
    for (std::int64_t first = 0; first < batch(); first += count) {
      if (!attend_whole(layer, first, count)) return false;
    }
    for (std::int64_t sequence = 0; has_states() && sequence < batch(); ++sequence) start_cache(layer, sequence);
  }
  for (std::int64_t sequence = 0; has_states() && sequence < batch(); ++sequence) {
    state_of(sequence).drop_keys(layer, config().window_size, weights_of(layer).logit_bound);
  }
  return true;
}

bool CpuForward::attend_whole(int layer, std::int64_t first, std::int64_t count) {
  const auto strides = [&](std::int64_t heads) {
    return kernels::cpu::AttentionStrides{heads * length() * head_dim_, length() * head_dim_, head_dim_};
  };
  const Probe& probe = probes()[floats(first)];
  log_normalizer_.resize(probe.recorder() == nullptr ? 0 : floats(config().heads * length()));
  without_gate_.resize(probe.keeps(Keep::ungated) ? log_normalizer_.size() : 0);
  kernels::cpu::ForgettingAttention arguments;
  arguments.batch = count;
  arguments.heads = config().heads;
  arguments.key_heads = config().key_heads;
  arguments.length = length();
  arguments.head_dim = head_dim_;
  arguments.query = queries_[floats(first)];
  arguments.key = keys_[floats(first)];
  arguments.value = values_[floats(first)];
  arguments.query_strides = strides(config().heads);
  arguments.key_strides = arguments.value_strides = strides(config().key_heads);
  if (!cumulative_.empty()) {
    arguments.cumulative_log_gate = cumulative_.data() + first * config().heads * length();
  }
  arguments.output = memory_->attended.data() + first * length() * config().query_size();
  arguments.output_strides = {length() * config().query_size(), head_dim_, config().query_size()};
  arguments.log_normalizer = log_normalizer_.empty() ? nullptr : log_normalizer_.data();
  arguments.log_normalizer_without_gate = without_gate_.empty() ? nullptr : without_gate_.data();
  arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
  arguments.window_size = config().window_size;
  arguments.pruning_tolerance = input().pruning_tolerance;
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(arguments, team_, job().stop, &blocks);
  if (status == kernels::Status::invalid_argument) {
    throw ShapeError(
        fmt::format("[forgetting_attention] {} heads of {} over {} positions with pruning tolerance {} are "
                    "not supported",
                    config().heads, head_dim_, length(), arguments.pruning_tolerance));
  }
  assert(blocks.skipped >= 0 && blocks.skipped <= blocks.total);
  report().attention_blocks += blocks.total;
  report().skipped_blocks += blocks.skipped;
  if (status != kernels::Status::ok) return false;
  if (probe.recorder() != nullptr) probe.take_normalizers(layer, log_normalizer_, without_gate_);
  return true;
}

/// The state takes keys, values and gates of a whole text up.
void CpuForward::start_cache(int layer, std::int64_t sequence) {
  const float* const keys = keys_[floats(sequence)];
  const float* const values = values_[floats(sequence)];
  const std::size_t size = cumulative_.size() / floats(batch());
  const auto cumulative = std::span(cumulative_).subspan(floats(sequence) * size, size);
  CpuState::Layer& cache = cache_of(layer, sequence);
  assert(cache.gates.size() * floats(length()) == cumulative.size());
  for (std::size_t head = 0; head < cache.gates.size(); ++head) {
    cache.gates[head].start(cumulative.subspan(head * floats(length()), floats(length())));
  }
  team_.run(config().key_heads, [&](std::int64_t head, int /*thread*/) {
    KeyValuePages& pages = cache.heads[floats(head)];
    for (std::int64_t row = 0; row < length(); ++row) {
      const std::int64_t at = (head * length() + row) * head_dim_;
      pages.append(keys + at, values + at);
    }
  });
}

void CpuForward::attend_next(int layer) {
  const std::int64_t heads = config().heads;
  const std::int64_t group = heads / config().key_heads;
  std::int64_t keys = 0;
  for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
    CpuState::Layer& cache = cache_of(layer, sequence);
    for (std::size_t head = 0; head < cache.heads.size(); ++head) {
      assert(cache.heads[head].end() == first_position(sequence));
      const std::size_t at = head * floats(head_dim_);
      cache.heads[head].append(keys_[floats(sequence)] + at, values_[floats(sequence)] + at);
    }
    keys += cache.heads.front().end();
  }
  share(batch() * heads, heads * head_dim_ * keys, [&](std::int64_t task) {
    const std::int64_t sequence = task / heads;
    const std::int64_t head = task % heads;
    const CpuState::Layer& cache = cache_of(layer, sequence);
    CachedAttention arguments;
    arguments.query = queries_[floats(sequence)] + head * head_dim_;
    arguments.head_dim = head_dim_;
    arguments.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
    arguments.first = cache.first[floats(head)];
    if (config().window_size > 0) {
      arguments.first = std::max(arguments.first, first_position(sequence) - config().window_size + 1);
    }
    if (!cache.gates.empty()) arguments.gate = &cache.gates[floats(head)];
    arguments.tolerance = state_of(sequence).skipped_share();
    attend_cached(arguments, cache.heads[floats(head / group)], memory_->attended.data() + task * head_dim_);
  });
}

bool CpuForward::project_output(int layer) {
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    cut_heads_[sequence].clear();
    for (int head = 0; head < config().heads_of(layer); ++head) {
      if (probes()[sequence].cuts_head(layer, head)) cut_heads_[sequence].push_back(head);
    }
  }
  pack(0, rows(), weights_of(layer).output, std::ssize(weights_of(layer).output) / hidden_);
  pack(1, rows(), weights_of(layer).output_gate, hidden_);
  return for_rows([&](const Rows& rows) { project_output_rows(layer, rows); });
}

bool CpuForward::feed_forward(int layer) {
  pack(0, rows(), weights_of(layer).mlp_in, hidden_);
  pack(1, rows(), weights_of(layer).mlp_out, config().intermediate_of(layer));
  return for_rows([&](const Rows& rows) { feed_forward_rows(layer, rows); });
}

void CpuForward::project_output_rows(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const bool linear = config().is_linear(layer);
  const std::int64_t size = linear ? linear_->mixer().output_size() : config().query_size();
  const std::int64_t head_size = size / config().heads_of(layer);
  float* const gate = rows.scratch.wide.data();
  if (config().output_gate && !linear) {
    norm(weights.attention_norm, weights.attention_norm_bias, rows.begin, rows.end, rows.scratch.normed.data());
    multiply({.rows = rows.count(),
              .columns = size,
              .depth = hidden_,
              .in = rows.scratch.normed.data(),
              .in_stride = hidden_,
              .weight = weights.output_gate.data(),
              .out = gate,
              .out_stride = size});
  }
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* const attended = memory_->attended.data() + row * size;
    if (linear) {
      linear_->finish(row, attended);
    } else {
      cpu_rows::norm_and_gate(config(), weights, gate + (row - rows.begin) * size, attended);
    }
    for (const int head : cut_heads_[floats(row / length())]) {
      std::fill_n(attended + head * head_size, head_size, 0.0F);
    }
  }
  float* const residual = memory_->residual.data() + rows.begin * hidden_;
  multiply({.rows = rows.count(),
            .columns = hidden_,
            .depth = size,
            .in = memory_->attended.data() + rows.begin * size,
            .in_stride = size,
            .weight = weights.output.data(),
            .out = residual,
            .out_stride = hidden_,
            .into = Into::add});
  add_to_rows(weights.output_bias, rows.count(), residual);
}

void CpuForward::feed_forward_rows(int layer, const Rows& rows) {
  const LayerWeights& weights = weights_of(layer);
  const std::int64_t inner = config().intermediate_of(layer);
  const std::int64_t columns = config().mlp == MlpKind::swiglu ? 2 * inner : inner;
  float* const wide = rows.scratch.wide.data();
  norm(weights.mlp_norm, weights.mlp_norm_bias, rows.begin, rows.end, rows.scratch.normed.data());
  multiply({.rows = rows.count(),
            .columns = columns,
            .depth = hidden_,
            .in = rows.scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights.mlp_in.data(),
            .out = wide,
            .out_stride = columns});
  add_to_rows(weights.mlp_in_bias, rows.count(), wide);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    float* const units = wide + row * columns;
    switch (config().mlp) {
      case MlpKind::swiglu:
        cpu_steps::swiglu(units, units + inner, inner, units);
        break;
      case MlpKind::gelu:
        cpu_steps::gelu(inner, units);
        break;
      case MlpKind::gelu_tanh:
        cpu_steps::gelu_tanh(inner, units);
        break;
    }
  }
  float* const residual = memory_->residual.data() + rows.begin * hidden_;
  multiply({.rows = rows.count(),
            .columns = hidden_,
            .depth = inner,
            .in = wide,
            .in_stride = columns,
            .weight = weights.mlp_out.data(),
            .out = residual,
            .out_stride = hidden_,
            .into = Into::add});
  add_to_rows(weights.mlp_out_bias, rows.count(), residual);
}

/// The norm goes where the heads' output was.
bool CpuForward::predict() {
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    logits_[sequence] = probes()[sequence].logits(config().vocabulary_size);
  }
  if (!keeps(Keep::logits) && !keeps(Keep::loss) && !keeps(Keep::hidden)) return true;
  if (keeps(Keep::logits) || keeps(Keep::loss)) pack(0, rows(), weights_.head(), hidden_);
  if (!for_rows([&](const Rows& rows) { predict_rows(rows); })) return false;
  keep_hidden(config().layers);
  for (std::size_t sequence = 0; sequence < probes().size(); ++sequence) {
    probes()[sequence].take_loss(0, std::span(loss_).subspan(sequence * floats(length()), floats(length())));
  }
  return true;
}

std::vector<double> CpuForward::for_logits(
    const float* normed, std::int64_t count, float* block,
    const std::function<void(std::int64_t row, std::int64_t first, std::span<const float> logits)>& take) {
  struct Sum {
    float shift = -std::numeric_limits<float>::infinity();
    double sum = 0;
  };
  const std::int64_t vocabulary = config().vocabulary_size;
  std::vector<Sum> sums(floats(count));
  for (std::int64_t first = 0; first < vocabulary; first += kVocabularyBlock) {
    const std::int64_t columns = std::min(kVocabularyBlock, vocabulary - first);
    multiply({.rows = count,
              .columns = columns,
              .depth = hidden_,
              .in = normed,
              .in_stride = hidden_,
              .weight = weights_.head().data() + first * hidden_,
              .out = block,
              .out_stride = columns});
    for (std::int64_t row = 0; row < count; ++row) {
      const float* logits = block + row * columns;
      take(row, first, {logits, floats(columns)});
      Sum& sum = sums[floats(row)];
      const float shift = std::max(sum.shift, cpu_steps::largest(logits, columns));
      sum.sum = sum.sum * std::exp(static_cast<double>(sum.shift) - static_cast<double>(shift)) +
                static_cast<double>(cpu_steps::sum_of_exponentials(logits, columns, shift));
      sum.shift = shift;
    }
  }
  std::vector<double> normalizers;
  normalizers.reserve(sums.size());
  for (const Sum& sum : sums) normalizers.push_back(std::log(sum.sum) + static_cast<double>(sum.shift));
  return normalizers;
}

void CpuForward::predict_rows(const Rows& rows) {
  float* const normed = memory_->attended.data() + rows.begin * hidden_;
  norm(weights_.final_norm, weights_.final_norm_bias, rows.begin, rows.end, normed);
  if (!keeps(Keep::logits) && !keeps(Keep::loss)) return;
  const std::int64_t vocabulary = config().vocabulary_size;
  std::vector<float> label_logits(floats(rows.count()));
  const auto take = [&](std::int64_t index, std::int64_t first, std::span<const float> logits) {
    const std::int64_t row = rows.begin + index;
    if (float* const kept = logits_[floats(row / length())]; kept != nullptr) {
      std::ranges::copy(logits, kept + row % length() * vocabulary + first);
    }
    const std::int64_t label = input().labels[floats(row)] - first;
    if (label >= 0 && floats(label) < logits.size()) label_logits[floats(index)] = logits[floats(label)];
  };
  const std::vector<double> normalizers = for_logits(normed, rows.count(), rows.scratch.wide.data(), take);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    loss_[floats(rows.begin + row)] =
        static_cast<float>(normalizers[floats(row)] - static_cast<double>(label_logits[floats(row)]));
  }
}

bool CpuForward::score(std::span<const ScoredRow> scored, int top, const Job& job) {
  const auto count = static_cast<std::int64_t>(scored.size());
  if (by_columns_) {
    score_rows(scored, top, memory_->scratch.front());
    return !job.stopped();
  }
  const std::int64_t threads = team_.threads();
  const std::int64_t chunk = std::clamp<std::int64_t>((count + threads - 1) / threads, 1, chunk_);
  pack(0, count, weights_.head(), hidden_);
  team_.run((count + chunk - 1) / chunk, [&](std::int64_t task, int thread) {
    if (job.stopped()) return;
    const std::int64_t begin = task * chunk;
    score_rows(scored.subspan(floats(begin), floats(std::min(chunk, count - begin))), top,
               memory_->scratch[floats(thread)]);
  });
  return !job.stopped();
}

void CpuForward::score_rows(std::span<const ScoredRow> scored, int top, Scratch& scratch) {
  for (std::size_t n = 0; n < scored.size(); ++n) {
    norm(weights_.final_norm, weights_.final_norm_bias, scored[n].row, scored[n].row + 1,
         scratch.normed.data() + n * floats(hidden_));
  }
  std::vector<TokenChoice> choices;
  for (const ScoredRow& row : scored) choices.emplace_back(row.label, top, row.distribution, row.marked);
  const auto take = [&](std::int64_t row, std::int64_t first, std::span<const float> logits) {
    choices[floats(row)].add(first, logits);
  };
  const std::vector<double> normalizers =
      for_logits(scratch.normed.data(), static_cast<std::int64_t>(scored.size()), scratch.wide.data(), take);
  for (std::size_t n = 0; n < scored.size(); ++n) *scored[n].score = choices[n].finish(normalizers[n]);
}

void CpuForward::predict_next(std::span<const std::span<float>> log_probabilities) {
  const std::int64_t vocabulary = config().vocabulary_size;
  FloatArray normed(floats(batch() * hidden_));
  std::vector<const float*> in;
  std::vector<float*> out;
  for (std::int64_t sequence = 0; sequence < batch(); ++sequence) {
    float* const to = normed.data() + sequence * hidden_;
    const std::int64_t last = (sequence + 1) * length();
    norm(weights_.final_norm, weights_.final_norm_bias, last - 1, last, to);
    assert(std::ssize(log_probabilities[floats(sequence)]) == vocabulary);
    in.push_back(to);
    out.push_back(log_probabilities[floats(sequence)].data());
  }
  multiply_columns({in, weights_.head().data(), vocabulary, hidden_, out});
  share(batch(), batch() * vocabulary * kExponentialNumbers, [&](std::int64_t sequence) {
    const std::span<float> next = log_probabilities[floats(sequence)];
    const auto shift = static_cast<double>(cpu_steps::largest(next.data(), vocabulary));
    double sum = 0;
    for (const float logit : next) sum += std::exp(static_cast<double>(logit) - shift);
    const double normalizer = std::log(sum) + shift;
    for (float& logit : next) logit = static_cast<float>(static_cast<double>(logit) - normalizer);
  });
}

cpu_rows::HeadRows CpuForward::heads_of(std::int64_t row) {
  const std::int64_t sequence = row / length();
  const std::int64_t position = row % length();
  cpu_rows::HeadRows heads;
  heads.query = queries_[floats(sequence)] + position * head_dim_;
  heads.key = keys_[floats(sequence)] + position * head_dim_;
  heads.value = values_[floats(sequence)] + position * head_dim_;
  heads.head_stride = length() * head_dim_;
  if (!log_gate_.empty()) heads.log_gate = log_gate_.data() + sequence * config().heads * length() + position;
  heads.gate_stride = length();
  if (config().rope) {
    const std::int64_t at = (by_columns_ ? sequence : position) * rotary_->half;
    heads.cosine = rotary_->cosine.data() + at;
    heads.sine = rotary_->sine.data() + at;
  }
  return heads;
}

void CpuForward::norm(const FloatArray& weight, const FloatArray& bias, std::int64_t begin, std::int64_t end,
                      float* out) const {
  const auto epsilon = static_cast<float>(config().norm_epsilon);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = memory_->residual.data() + row * hidden_;
    float* const to = out + (row - begin) * hidden_;
    if (config().norm == NormKind::rms) {
      cpu_steps::rms_norm(x, weight.data(), hidden_, epsilon, to);
    } else {
      cpu_steps::layer_norm(x, weight.data(), bias.data(), hidden_, epsilon, to);
    }
  }
}

void CpuForward::add_to_rows(const FloatArray& bias, std::int64_t count, float* rows) {
  const auto size = static_cast<std::int64_t>(bias.size());
  for (std::int64_t row = 0; row < count && size > 0; ++row) cpu_steps::add(bias.data(), size, rows + row * size);
}

bool CpuForward::for_rows(const std::function<void(const Rows&)>& step) {
  if (by_columns_) {
    step({0, rows(), memory_->scratch.front()});
    return !job().stopped();
  }
  team_.run((rows() + chunk_ - 1) / chunk_, [&](std::int64_t task, int thread) {
    if (job().stopped()) return;
    const std::int64_t begin = task * chunk_;
    step({begin, std::min(begin + chunk_, rows()), memory_->scratch[floats(thread)]});
  });
  return !job().stopped();
}

void CpuForward::share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body) {
  if (tasks > 1 && numbers >= kSharedNumbers) {
    team_.run(tasks, [&](std::int64_t task, int /*thread*/) { body(task); });
  } else {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  }
}

void CpuForward::pack(std::size_t place, std::int64_t count, const FloatArray& weight, std::int64_t depth) {
  packed_[place] = {};
  if (by_columns_ || count < kRowsToPack || weight.empty() || std::ssize(weight) > kMostPacked) return;
  const std::int64_t columns = std::ssize(weight) / depth;
  FloatArray& packed = memory_->packed[place];
  CpuPassMemory::grow(packed, floats(kernels::cpu::packed_size(columns, depth)));
  team_.run((columns + kernels::cpu::kPanelColumns - 1) / kernels::cpu::kPanelColumns,
            [&](std::int64_t panel, int /*thread*/) {
              kernels::cpu::pack_panel(weight.data(), columns, depth, panel, packed.data());
            });
  packed_[place] = {weight, depth};
}

/// Null where the product's matrix is not packed, or does not begin with a panel.
const float* CpuForward::packed_of(const kernels::cpu::MatrixProduct& product) const {
  for (std::size_t place = 0; place < packed_.size(); ++place) {
    const std::span<const float> of = packed_[place].of;
    const std::less<> before;
    if (of.empty() || before(product.weight, of.data())) continue;
    if (!before(product.weight, of.data() + of.size())) continue;
    assert(packed_[place].depth == product.depth);
    const std::int64_t column = (product.weight - of.data()) / product.depth;
    if (column % kernels::cpu::kPanelColumns != 0) return nullptr;
    const std::int64_t panel = column / kernels::cpu::kPanelColumns;
    return memory_->packed[place].data() + kernels::cpu::packed_place(panel, product.depth);
  }
  return nullptr;
}

void CpuForward::multiply(kernels::cpu::MatrixProduct product) {
  if (!by_columns_) {
    product.packed = packed_of(product);
    kernels::cpu::matrix_product(product);
    return;
  }
  std::vector<const float*> in;
  std::vector<float*> out;
  for (std::int64_t row = 0; row < product.rows; ++row) {
    in.push_back(product.in + row * product.in_stride);
    out.push_back(product.out + row * product.out_stride);
  }
  multiply_columns({in, product.weight, product.columns, product.depth, out, product.into == Into::add});
}

void CpuForward::multiply_columns(const kernels::cpu::RowProducts& products) {
  const std::int64_t block = std::max<std::int64_t>(1, kTaskNumbers / products.depth);
  const std::int64_t numbers = std::ssize(products.in) * products.columns * products.depth;
  share((products.columns + block - 1) / block, numbers, [&](std::int64_t task) {
    kernels::cpu::RowProducts part = products;
    const std::int64_t first = task * block;
    part.columns = std::min(block, products.columns - first);
    part.weight += first * products.depth;
    std::vector<float*> out(products.out.begin(), products.out.end());
    for (float*& row : out) row += first;
    part.out = out;
    kernels::cpu::row_products(part);
  });
}

}  // namespace foxscope
