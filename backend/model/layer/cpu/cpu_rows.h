#pragma once

#include <cstdint>
#include <span>

#include "backend/model/layer/pass_options.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

/// Cosines and sines of positions.
struct RotaryTable {
  /// The table of L positions from `first` on.
  RotaryTable(const ModelConfig& config, std::int64_t first, std::int64_t length);
  RotaryTable(const ModelConfig& config, std::span<const std::int64_t> positions);
  std::int64_t half;
  FloatArray cosine;  ///< [L, rotary_dim / 2]; empty without rotary embedding
  FloatArray sine;
};

}  // namespace foxscope

/// The steps of a layer that treat one position, between its matrix products.
namespace foxscope::cpu_rows {

/// Where the heads of one position go: head h lies h * stride after the first.
struct HeadRows {
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  std::int64_t head_stride = 0;
  double* log_gate = nullptr;  ///< nats; not written where gates do not depend on data
  std::int64_t gate_stride = 0;
  const float* cosine = nullptr;  ///< [rotary_dim / 2] of this position; null without rotary embedding
  const float* sine = nullptr;
};

/// Query, key, value and log f of a position from its merged projection: shift, norm, rotary embedding, in this order.
/// @param row       [columns] with bias
/// @param previous  the same of the position before; zeros before the first
void split_heads(const ModelConfig& config, const LayerWeights& weights, const float* row, const float* previous,
                 const HeadRows& rows);

/// act(gate) * norm(o) in place.
/// @param gate      [H d] logits of the output gate; not read where there is none
/// @param attended  [H d]
void norm_and_gate(const ModelConfig& config, const LayerWeights& weights, const float* gate, float* attended);

}  // namespace foxscope::cpu_rows
