#pragma once

#include <cstdint>
#include <span>

#include "backend/model/causal_lm.h"
#include "backend/model/cpu_weights.h"

/// The steps of a layer that treat one position, between its matrix products: shared by the pass over a whole sequence
/// and by a continuation's single positions.
namespace foxscope::cpu_rows {

/// Where the heads of one position go: head h lies h * stride after the first.
struct Places {
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  std::int64_t head_stride = 0;
  double* log_gate = nullptr;  ///< nats; not written where gates do not depend on data
  std::int64_t gate_stride = 0;
  const float* cosine = nullptr;  ///< [d/2] of this position; null without rotary embedding
  const float* sine = nullptr;
};

/// Query, key, value and log f of a position from its merged projection: shift, norm, rotary embedding, in this order.
/// @param row       [columns] with bias
/// @param previous  the same of the position before; zeros before the first
void place(const ModelConfig& config, const CpuLayerWeights& weights, const float* row, const float* previous,
           const Places& places);

/// act(gate) * norm(o) in place, and 0 for heads that are cut.
/// @param gate      [D] logits of the output gate; not read where there is none
/// @param attended  [D]
void finish_attention(const ModelConfig& config, const CpuLayerWeights& weights, const float* gate,
                      std::span<const Intervention> interventions, int layer, float* attended);

}  // namespace foxscope::cpu_rows
