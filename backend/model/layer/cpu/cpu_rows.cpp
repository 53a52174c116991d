#include "backend/model/layer/cpu/cpu_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "backend/base/index.h"
#include "backend/base/log_sigmoid.h"
#include "backend/model/layer/cpu/cpu_steps.h"

namespace foxscope {

namespace {

std::vector<TextPosition> positions_of(std::int64_t length) {
  std::vector<TextPosition> positions;
  for (std::int64_t position = 0; position < length; ++position) positions.push_back({position, length});
  return positions;
}

}  // namespace

RotaryTable::RotaryTable(const Rotary& rotary, std::int64_t length) : RotaryTable(rotary, positions_of(length)) {}

RotaryTable::RotaryTable(const Rotary& rotary, std::span<const TextPosition> positions) : half(rotary.dim / 2) {
  const std::int64_t count = std::ssize(positions);
  cosine.resize(index_of(count * half));
  sine.resize(index_of(count * half));
  std::vector<double> frequencies;
  for (std::int64_t p = 0; p < count; ++p) {
    const auto& [position, length] = positions[index_of(p)];
    if (p == 0 || !rotary.turns_alike(positions[index_of(p - 1)].length, length)) {
      frequencies = rotary.frequencies(length);
    }
    for (std::int64_t n = 0; n < half; ++n) {
      const double angle = static_cast<double>(position) * frequencies[index_of(n)];
      cosine[index_of(p * half + n)] = static_cast<float>(rotary.factor * std::cos(angle));
      sine[index_of(p * half + n)] = static_cast<float>(rotary.factor * std::sin(angle));
    }
    if (rotary.query_growth > 0) query_factor.push_back(static_cast<float>(rotary.query_factor(position)));
  }
}

}  // namespace foxscope

namespace foxscope::cpu_rows {
namespace {

/// Clips some heads of a row.
void clip(const ModelConfig& config, const HeadRows& rows, std::int64_t heads, float* first) {
  if (config.projection_limit == 0) return;
  for (std::int64_t head = 0; head < heads; ++head) {
    cpu_steps::clip(static_cast<float>(config.projection_limit), config.head_dim, first + head * rows.head_stride);
  }
}

void rotate(const HeadRows& rows, std::int64_t heads, float* first) {
  if (rows.rotary_dim == 0) return;
  for (std::int64_t head = 0; head < heads; ++head) {
    cpu_steps::rotate(rows.cosine, rows.sine, rows.rotary_dim, first + head * rows.head_stride);
  }
}

/// The norm of a row's heads together.
/// @param heads  they lie one behind the other
void norm_whole(const ModelConfig& config, const FloatArray& weight, std::int64_t heads, const float* row, float* to,
                std::int64_t head_stride) {
  const std::int64_t dim = config.head_dim;
  const auto factor = static_cast<float>(
      1 / std::sqrt(std::inner_product(row, row + heads * dim, row, 0.0) / static_cast<double>(heads * dim) +
                    config.query_key_norm_epsilon));
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t n = 0; n < dim; ++n) {
      to[head * head_stride + n] = row[head * dim + n] * factor * weight[index_of(head * dim + n)];
    }
  }
}

void split_queries(const ModelConfig& config, const LayerWeights& weights, const float* row, const HeadRows& rows) {
  const std::int64_t dim = config.head_dim;
  const auto epsilon = static_cast<float>(config.query_key_norm_epsilon);
  const bool whole = config.query_key_norm == QueryKeyNorm::whole;
  if (whole) norm_whole(config, weights.query_norm, config.heads, row, rows.query, rows.head_stride);
  for (std::int64_t head = 0; head < config.heads && !whole; ++head) {
    const float* from = row + head * dim;
    float* to = rows.query + head * rows.head_stride;
    if (weights.query_norm.empty()) {
      std::copy(from, from + dim, to);
    } else {
      cpu_steps::rms_norm(from, weights.query_norm.data() + head * dim, dim, epsilon, to);
    }
  }
  clip(config, rows, config.heads, rows.query);
  rotate(rows, config.heads, rows.query);
  if (rows.query_factor == 1) return;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    float* const query = rows.query + head * rows.head_stride;
    for (std::int64_t n = 0; n < dim; ++n) query[n] *= rows.query_factor;
  }
}

}  // namespace

void split_heads(const ModelConfig& config, const LayerWeights& weights, const float* row, const float* previous,
                 const HeadRows& rows) {
  assert(rows.rotary_dim == 0 || (rows.cosine != nullptr && rows.sine != nullptr));
  const std::int64_t dim = config.head_dim;
  const auto epsilon = static_cast<float>(config.query_key_norm_epsilon);
  const ProjectionColumns columns(config);
  split_queries(config, weights, row, rows);
  const auto place_head = [&](std::int64_t column, bool shifted, std::int64_t gate_column, std::int64_t head,
                              float* to) {
    const float* from = row + column + head * dim;
    if (shifted) {
      const float a = cpu_steps::sigmoid(row[gate_column + head]);
      cpu_steps::shift(previous + column + head * dim, from, a, dim, to);
    } else {
      std::copy(from, from + dim, to);
    }
  };
  const bool whole = config.query_key_norm == QueryKeyNorm::whole;
  for (std::int64_t head = 0; head < config.key_heads; ++head) {
    float* key = rows.key + head * rows.head_stride;
    place_head(columns.key, config.key_shift, columns.key_shift, head, key);
    if (!weights.key_norm.empty() && !whole) {
      cpu_steps::rms_norm(key, weights.key_norm.data() + head * dim, dim, epsilon, key);
    }
    place_head(columns.value, config.value_shift, columns.value_shift, head, rows.value + head * rows.head_stride);
  }
  if (whole) norm_whole(config, weights.key_norm, config.key_heads, row + columns.key, rows.key, rows.head_stride);
  clip(config, rows, config.key_heads, rows.key);
  clip(config, rows, config.key_heads, rows.value);
  rotate(rows, config.key_heads, rows.key);
  if (config.forget_gate != ForgetGate::full) return;
  assert(rows.log_gate != nullptr);
  for (std::int64_t head = 0; head < config.heads; ++head) {
    rows.log_gate[head * rows.gate_stride] = config.log_gate_factor * log_sigmoid(row[columns.forget + head]);
  }
}

void norm_and_gate(const ModelConfig& config, const LayerWeights& weights, const float* gate, float* attended) {
  assert(gate != nullptr || !config.output_gate);
  if (config.output_norm) {
    cpu_steps::rms_norm_heads(attended, weights.output_norm.data(), config.heads, config.head_dim,
                              static_cast<float>(config.norm_epsilon), attended);
  }
  if (!config.output_gate) return;
  config.gates_by_silu() ? cpu_steps::multiply_silu(gate, config.query_size(), attended)
                         : cpu_steps::multiply_sigmoid(gate, config.query_size(), attended);
}

}  // namespace foxscope::cpu_rows
