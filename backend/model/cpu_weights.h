#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "backend/model/checkpoint.h"

namespace foxscope {

/// Memory that begins at a cache line: the BLAS rounds differently at other addresses, and the same command is to write
/// the same numbers.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>& /*other*/) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t /*count*/) { ::operator delete(memory, kAlignment); }
  bool operator==(const CacheLineAllocator& /*other*/) const { return true; }
};
using FloatArray = std::vector<float, CacheLineAllocator<float>>;

/// The weights of one layer in float32, with everything that reads the same input merged into one matrix.
struct CpuLayerWeights {
  FloatArray attention_norm;   ///< [D]
  FloatArray projection;       ///< [columns, D]: query, key, value, key shift, value shift, forget gate
  FloatArray projection_bias;  ///< [columns]; empty where all are 0
  FloatArray query_norm;       ///< [D]; empty without norm
  FloatArray key_norm;         ///< [H_kv d]
  FloatArray constant_gate;    ///< [H] logits of a gate that does not depend on data; else empty
  FloatArray output_gate;      ///< [D, D]; may be empty
  FloatArray output_norm;      ///< [D]; may be empty
  FloatArray output;           ///< [D, D]
  FloatArray mlp_norm;         ///< [D]
  FloatArray mlp_gate_up;      ///< [2 I, D]
  FloatArray mlp_down;         ///< [D, I]
  /// [H] what |q_i . k_j| / sqrt(d) cannot exceed, whatever is read: by the norms' weights, else by spectral norms.
  std::vector<double> logit_bound;
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

/// Reads a checkpoint's weights as float32, one tensor after the other, and tells the job how far it is. Once the job
/// is stopped nothing more is read: what is given then is not whole.
class WeightReader {
 public:
  WeightReader(const Checkpoint& checkpoint, const Job& job);

  /// @throws Error naming the tensor that holds a NaN or an infinity
  FloatArray read(const std::string& name);
  /// @returns nothing if the job was stopped
  std::optional<CpuLayerWeights> read_layer(int layer);
  [[nodiscard]] const ModelConfig& config() const { return checkpoint_.config(); }
  [[nodiscard]] bool stopped() const { return job_.stopped(); }

 private:
  const Checkpoint& checkpoint_;
  const Job& job_;
  std::int64_t done_ = 0;  ///< bytes of the tensors
  std::int64_t total_ = 0;
};

/// All weights of a model in float32.
struct CpuWeights {
  /// @returns nothing if the job was stopped
  /// @throws Error naming the tensor that holds a NaN or an infinity
  static std::optional<CpuWeights> read(const Checkpoint& checkpoint, const Job& job);
  FloatArray embedding;  ///< [V, D]
  std::vector<CpuLayerWeights> layers;
  FloatArray final_norm;           ///< [D]
  FloatArray language_model_head;  ///< [V, D]; empty where it is the embedding
  [[nodiscard]] const float* head() const {
    return language_model_head.empty() ? embedding.data() : language_model_head.data();
  }
};

}  // namespace foxscope
