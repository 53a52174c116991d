#pragma once

#include <cstdint>
#include <span>

#include "backend/model/layer/pass_options.h"
#include "backend/model/spec/parameters.h"

namespace foxscope {

/// A position of a text, and how many positions the whole text has.
struct TextPosition {
  std::int64_t position = 0;
  std::int64_t length = 0;
};

/// Cosines and sines of positions, times what the rotary embedding multiplies them by.
struct RotaryTable {
  /// The table of all positions of a text.
  RotaryTable(const Rotary& rotary, std::int64_t length);
  RotaryTable(const Rotary& rotary, std::span<const TextPosition> positions);
  std::int64_t half;
  FloatArray cosine;  ///< [L, dim / 2]
  FloatArray sine;
  FloatArray query_factor;  ///< [L] what queries are multiplied by beside; empty: nothing
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
  std::int64_t rotary_dim = 0;    ///< numbers of each head that turn; 0: none
  const float* cosine = nullptr;  ///< [rotary_dim / 2] of this position
  const float* sine = nullptr;
  float query_factor = 1;  ///< what queries are multiplied by beside
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
