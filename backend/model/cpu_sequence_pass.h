#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/model/causal_lm.h"
#include "backend/model/cpu_rows.h"
#include "backend/model/cpu_team.h"
#include "backend/model/cpu_weights.h"

namespace foxscope {

class CpuContinuation;

/// Columns of the vocabulary at once: a block of logits stays in a core's cache.
inline constexpr std::int64_t kVocabularyBlock = 1024;

inline std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count); }

/// What one thread needs for one chunk of rows.
struct CpuScratch {
  FloatArray normed;  ///< [rows + 1, D]
  FloatArray wide;    ///< [rows + 1, the widest product]
};

/// Cosines and sines of positions.
struct RotaryTable {
  RotaryTable(const ModelConfig& config, std::int64_t first, std::int64_t length);
  std::int64_t half;
  FloatArray cosine;  ///< [L, d / 2], of positions from `first` on; empty without rotary embedding
  FloatArray sine;
};

/// One sequence on its way through the layers.
class CpuSequencePass {
 public:
  CpuSequencePass(const ModelConfig& config, const CpuWeights& weights, const ForwardRequest& request, std::int64_t row,
                  Recorder& recorder, const Job& job);

  /// @returns false if the job was stopped
  bool run(ForwardReport& report);

  /// What the layers leave goes to a continuation as well, which must outlive the pass.
  void fill(CpuContinuation& continuation) { continuation_ = &continuation; }

 private:
  bool run_layer(int layer, ForwardReport& report);
  /// Calls a step for every chunk of rows, on all threads.
  bool for_rows(const std::function<void(std::int64_t begin, std::int64_t end, CpuScratch&)>& step);
  void enter();
  void project(int layer, std::int64_t begin, std::int64_t end, CpuScratch& scratch);
  [[nodiscard]] cpu_rows::Places places(std::int64_t position);
  void prepare_gates(int layer);
  bool attend(int layer, ForwardReport& report);
  void leave_attention(const CpuLayerWeights& weights, int layer, std::int64_t begin, std::int64_t end,
                       CpuScratch& scratch);
  void feed_forward(const CpuLayerWeights& weights, std::int64_t begin, std::int64_t end, CpuScratch& scratch);
  void predict(std::int64_t begin, std::int64_t end, CpuScratch& scratch);
  void record_hidden(int index);

  const ModelConfig& config_;
  const CpuWeights& weights_;
  const ForwardRequest& request_;
  Recorder& recorder_;
  const Job& job_;
  const std::int32_t* input_ids_;
  const std::int32_t* labels_;
  const std::int64_t length_;
  const std::int64_t hidden_;
  const std::int64_t head_dim_;
  const ProjectionColumns columns_;
  const std::span<const float> start_;  ///< [L, D] what enters the first layer that is run; empty: the embedding
  const RotaryTable rotary_;
  LibTorchTeam team_;
  std::int64_t chunk_;
  std::vector<CpuScratch> scratch_;
  FloatArray residual_;           ///< [L, D]
  FloatArray value_;              ///< [H_kv, L, d]
  FloatArray attended_;           ///< [L, D]
  std::vector<double> log_gate_;  ///< [H, L]; empty where every f is 1
  FloatArray own_query_;          ///< [H, L, d] where the recorder does not keep it
  FloatArray own_key_;            ///< [H_kv, L, d]
  FloatArray zeros_;              ///< the key and value before the first position
  float* query_ = nullptr;        ///< of the layer at hand
  float* key_ = nullptr;
  CpuContinuation* continuation_ = nullptr;
};

}  // namespace foxscope
