#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/model/continuation.h"
#include "backend/model/cpu_key_value_cache.h"
#include "backend/model/cpu_team.h"
#include "backend/model/cpu_weights.h"

namespace foxscope {

/// A continuation in float32 on the CPU. The prompt is read by the fused pass, which fills the layers' caches; each
/// token after it costs one product of every matrix with a vector.
class CpuContinuation final : public Continuation {
 public:
  CpuContinuation(const ModelConfig& config, const CpuWeights& weights, const PromptRequest& request);

  /// Takes over what the pass over the prompt leaves.
  struct PromptLayer {
    const float* key = nullptr;              ///< [H_kv, L, d] as it enters attention
    const float* value = nullptr;            ///< likewise
    std::span<const double> cumulative_log;  ///< [H, L] c; empty where every f is 1
  };
  void take_last_projection(int layer, const float* row);
  void take_layer(int layer, const PromptLayer& prompt);
  /// @param residual  [D] of the last position after the last layer
  void take_residual(const float* residual);

  [[nodiscard]] std::unique_ptr<Continuation> copy() const override { return std::make_unique<CpuContinuation>(*this); }
  [[nodiscard]] std::int64_t length() const override { return length_; }
  [[nodiscard]] std::span<const float> log_probabilities() const override { return log_probabilities_; }
  void read(std::int32_t id) override;
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override;

 private:
  struct Product {
    const float* weight;  ///< [columns, depth]
    std::int64_t columns;
    std::int64_t depth;
  };
  /// Calls a body for every task, on all threads where the tasks read enough numbers together.
  void share(std::int64_t tasks, std::int64_t numbers, const std::function<void(std::int64_t task)>& body);
  /// out = W in, or out += W in, its columns shared by all threads.
  void multiply(const Product& product, const float* in, float* out, LinearArguments::Into into);
  void run_layer(int layer);
  void project(int layer);
  void append_gates(int layer);
  void attend(int layer);
  void leave_attention(int layer);
  void feed_forward(int layer);
  void predict();
  void drop_keys(int layer);

  const ModelConfig* config_;
  const CpuWeights* weights_;
  double tolerance_;
  std::vector<Intervention> interventions_;
  std::int64_t length_;
  std::vector<CpuLayerCache> layers_;
  LibTorchTeam team_;
  FloatArray residual_;             ///< [D]
  FloatArray normed_;               ///< [D]
  FloatArray wide_;                 ///< the widest product
  FloatArray query_, key_, value_;  ///< [H, d], [H_kv, d]
  FloatArray attended_;             ///< [D]
  std::vector<double> log_gate_;    ///< [H]
  std::vector<float> log_probabilities_;
};

}  // namespace foxscope
