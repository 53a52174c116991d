#include "backend/model/cpu_rows.h"

#include <algorithm>
#include <cassert>

#include "backend/model/cpu_steps.h"
#include "backend/model/interventions.h"

namespace foxscope::cpu_rows {
namespace {

constexpr auto kEpsilon = static_cast<float>(ModelConfig::kQueryKeyNormEpsilon);

void rotate(const Places& places, std::int64_t heads, std::int64_t head_dim, float* first) {
  if (places.cosine == nullptr) return;
  for (std::int64_t head = 0; head < heads; ++head) {
    cpu_steps::rotate(places.cosine, places.sine, head_dim, first + head * places.head_stride);
  }
}

void place_queries(const ModelConfig& config, const CpuLayerWeights& weights, const float* row, const Places& places) {
  const std::int64_t dim = config.head_dim;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const float* from = row + head * dim;
    float* to = places.query + head * places.head_stride;
    if (weights.query_norm.empty()) {
      std::copy(from, from + dim, to);
    } else {
      cpu_steps::rms_norm(from, weights.query_norm.data() + head * dim, dim, kEpsilon, to);
    }
  }
  rotate(places, config.heads, dim, places.query);
}

}  // namespace

void place(const ModelConfig& config, const CpuLayerWeights& weights, const float* row, const float* previous,
           const Places& places) {
  assert((places.cosine != nullptr) == config.rope && (places.sine != nullptr) == config.rope);
  const std::int64_t dim = config.head_dim;
  const ProjectionColumns columns(config);
  place_queries(config, weights, row, places);
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
    float* key = places.key + head * places.head_stride;
    place_head(columns.key, config.key_shift, columns.key_shift, head, key);
    if (!weights.key_norm.empty()) {
      cpu_steps::rms_norm(key, weights.key_norm.data() + head * dim, dim, kEpsilon, key);
    }
    place_head(columns.value, config.value_shift, columns.value_shift, head, places.value + head * places.head_stride);
  }
  rotate(places, config.key_heads, dim, places.key);
  if (config.forget_gate != ForgetGate::full) return;
  assert(places.log_gate != nullptr);
  for (std::int64_t head = 0; head < config.heads; ++head) {
    places.log_gate[head * places.gate_stride] = cpu_steps::log_sigmoid(row[columns.forget + head]);
  }
}

void finish_attention(const ModelConfig& config, const CpuLayerWeights& weights, const float* gate,
                      std::span<const Intervention> interventions, int layer, float* attended) {
  assert(gate != nullptr || !config.output_gate);
  const std::int64_t dim = config.head_dim;
  if (config.output_norm) {
    cpu_steps::rms_norm_heads(attended, weights.output_norm.data(), config.heads, dim,
                              static_cast<float>(config.norm_epsilon), attended);
  }
  if (config.output_gate) {
    // Behind an output norm the authors' gate is always a sigmoid.
    const bool silu = config.output_gate_activation == OutputGateActivation::silu && !config.output_norm;
    silu ? cpu_steps::multiply_silu(gate, config.hidden_size, attended)
         : cpu_steps::multiply_sigmoid(gate, config.hidden_size, attended);
  }
  for (int head = 0; head < config.heads && !interventions.empty(); ++head) {
    if (cuts_head(interventions, layer, head)) std::fill(attended + head * dim, attended + (head + 1) * dim, 0.0F);
  }
}

}  // namespace foxscope::cpu_rows
