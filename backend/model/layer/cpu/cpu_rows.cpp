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

std::vector<std::int64_t> positions_from(std::int64_t first, std::int64_t length) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace

RotaryTable::RotaryTable(const ModelConfig& config, std::int64_t first, std::int64_t length)
    : RotaryTable(config, positions_from(first, length)) {}

RotaryTable::RotaryTable(const ModelConfig& config, std::span<const std::int64_t> positions)
    : half(config.rotary_dim / 2) {
  const std::int64_t length = std::ssize(positions);
  const std::vector<double> frequencies = rotary_frequencies(config);
  cosine.resize(static_cast<std::size_t>(length * half));
  sine.resize(static_cast<std::size_t>(length * half));
  for (std::int64_t n = 0; n < half; ++n) {
    for (std::int64_t p = 0; p < length; ++p) {
      const double angle = static_cast<double>(positions[index_of(p)]) * frequencies[index_of(n)];
      cosine[index_of(p * half + n)] = static_cast<float>(std::cos(angle));
      sine[index_of(p * half + n)] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace foxscope

namespace foxscope::cpu_rows {
namespace {

void rotate(const HeadRows& rows, std::int64_t heads, std::int64_t rotary_dim, float* first) {
  if (rows.cosine == nullptr) return;
  for (std::int64_t head = 0; head < heads; ++head) {
    cpu_steps::rotate(rows.cosine, rows.sine, rotary_dim, first + head * rows.head_stride);
  }
}

void split_queries(const ModelConfig& config, const LayerWeights& weights, const float* row, const HeadRows& rows) {
  const std::int64_t dim = config.head_dim;
  const auto epsilon = static_cast<float>(config.query_key_norm_epsilon);
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const float* from = row + head * dim;
    float* to = rows.query + head * rows.head_stride;
    if (weights.query_norm.empty()) {
      std::copy(from, from + dim, to);
    } else {
      cpu_steps::rms_norm(from, weights.query_norm.data() + head * dim, dim, epsilon, to);
    }
  }
  rotate(rows, config.heads, config.rotary_dim, rows.query);
}

}  // namespace

void split_heads(const ModelConfig& config, const LayerWeights& weights, const float* row, const float* previous,
                 const HeadRows& rows) {
  assert((rows.cosine != nullptr) == config.rope && (rows.sine != nullptr) == config.rope);
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
  for (std::int64_t head = 0; head < config.key_heads; ++head) {
    float* key = rows.key + head * rows.head_stride;
    place_head(columns.key, config.key_shift, columns.key_shift, head, key);
    if (!weights.key_norm.empty()) {
      cpu_steps::rms_norm(key, weights.key_norm.data() + head * dim, dim, epsilon, key);
    }
    place_head(columns.value, config.value_shift, columns.value_shift, head, rows.value + head * rows.head_stride);
  }
  rotate(rows, config.key_heads, config.rotary_dim, rows.key);
  if (config.forget_gate != ForgetGate::full) return;
  assert(rows.log_gate != nullptr);
  for (std::int64_t head = 0; head < config.heads; ++head) {
    rows.log_gate[head * rows.gate_stride] = log_sigmoid(row[columns.forget + head]);
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
