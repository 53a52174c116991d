#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "backend/model/weights/checkpoint.h"

namespace foxscope::bench {

/// GPT-2 as one would write it in LibTorch's operations, on the CPU in float32: layer_norm, linear, causal
/// scaled_dot_product_attention, gelu, and the loss of all logits at once.
class EagerGpt2 {
 public:
  explicit EagerGpt2(const Checkpoint& checkpoint);
  /// [L] nats.
  /// @param input_ids, labels  [L] int64
  [[nodiscard]] at::Tensor per_token_loss(const at::Tensor& input_ids, const at::Tensor& labels) const;

 private:
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  [[nodiscard]] at::Tensor product(const at::Tensor& x, const std::string& name) const;

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;  ///< without the prefix; matrices as in the file, [in, out]
};

}  // namespace foxscope::bench
