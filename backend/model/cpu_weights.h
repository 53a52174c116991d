#pragma once

#include <vector>

#include "backend/model/checkpoint.h"

namespace foxscope {

/// The weights of one layer in float32, with everything that reads the same input merged into one matrix.
struct CpuLayerWeights {
  std::vector<float> attention_norm;   ///< [D]
  std::vector<float> projection;       ///< [columns, D]: query, key, value, key shift, value shift, forget gate
  std::vector<float> projection_bias;  ///< [columns]; empty where all are 0
  std::vector<float> query_norm;       ///< [D]; empty without norm
  std::vector<float> key_norm;         ///< [H_kv d]
  std::vector<float> constant_gate;    ///< [H] logits of a gate that does not depend on data; else empty
  std::vector<float> output_gate;      ///< [D, D]; may be empty
  std::vector<float> output_norm;      ///< [D]; may be empty
  std::vector<float> output;           ///< [D, D]
  std::vector<float> mlp_norm;         ///< [D]
  std::vector<float> mlp_gate_up;      ///< [2 I, D]
  std::vector<float> mlp_down;         ///< [D, I]
};

/// Where the parts of the merged projection begin, in columns.
struct ProjectionColumns {
  explicit ProjectionColumns(const ModelConfig& config);
  std::int64_t key = 0;  ///< query begins at 0
  std::int64_t value = 0;
  std::int64_t key_shift = 0;
  std::int64_t value_shift = 0;
  std::int64_t forget = 0;
  std::int64_t count = 0;
};

/// @throws Error naming the tensor that holds a NaN or an infinity
CpuLayerWeights read_layer_weights(const Checkpoint& checkpoint, int layer);

/// All weights of a model in float32.
struct CpuWeights {
  /// @throws Error naming the tensor that holds a NaN or an infinity
  explicit CpuWeights(const Checkpoint& checkpoint);
  std::vector<float> embedding;  ///< [V, D]
  std::vector<CpuLayerWeights> layers;
  std::vector<float> final_norm;           ///< [D]
  std::vector<float> language_model_head;  ///< [V, D]; empty where it is the embedding
  [[nodiscard]] const float* head() const {
    return language_model_head.empty() ? embedding.data() : language_model_head.data();
  }
};

}  // namespace foxscope
