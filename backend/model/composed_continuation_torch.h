#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/model/composed_causal_lm_torch.h"
#include "backend/model/continuation.h"
#include "backend/model/gate_history.h"
#include "backend/model/growing_tensor_torch.h"

namespace foxscope {

/// A continuation made of LibTorch's operations, on the model's device. Copies share what both hold. The heads of a
/// layer drop keys together: those that none of them needs.
class ComposedContinuation final : public Continuation {
 public:
  ComposedContinuation(const ComposedCausalLM& model, const PromptRequest& request);

  /// Takes over what the pass over the prompt leaves.
  /// @param cumulative  [H, L] c, nats
  void take_layer(int layer, const ComposedHeads& heads, std::span<const double> cumulative);
  /// @param residual  [1, D] of the last position after the last layer
  void take_residual(const at::Tensor& residual);

  [[nodiscard]] std::unique_ptr<Continuation> copy() const override {
    return std::make_unique<ComposedContinuation>(*this);
  }
  [[nodiscard]] std::int64_t length() const override { return length_; }
  [[nodiscard]] std::span<const float> log_probabilities() const override { return log_probabilities_; }
  void read(std::int32_t id) override;
  [[nodiscard]] std::vector<std::int64_t> held_keys() const override;

 private:
  struct LayerCache {
    GrowingTensor key;                  ///< [H_kv, n, d] of the positions from `first` on
    GrowingTensor value;                ///< likewise
    GrowingTensor cumulative_log_gate;  ///< [H, n] float64, nats; not used where every f is 1
    std::vector<GateHistory> gates;     ///< the same on the host
    std::int64_t first = 0;
    ComposedBefore before;
  };
  void append(int layer, const ComposedHeads& heads);
  [[nodiscard]] at::Tensor attend(int layer, const at::Tensor& query) const;
  void drop_keys(int layer);

  const ComposedCausalLM* model_;
  double tolerance_;
  std::vector<Intervention> interventions_;
  std::int64_t length_;
  std::vector<LayerCache> layers_;
  std::vector<float> log_probabilities_;
};

}  // namespace foxscope
