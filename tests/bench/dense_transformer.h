#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <ATen/ATen.h>

#include "backend/model/weights/checkpoint.h"

namespace foxscope::bench {

/// How the plain program computes attention.
enum class DenseAttention {
  matrices,            ///< scores, gate and softmax as [H, L, L] tensors, the usual way
  scaled_dot_product,  ///< LibTorch's own causal attention; leaves the gate out
};

/// The models of docs/models.md written the plain way in eager LibTorch operations, float32: the peer that `foxscope
/// bench model` measures against. Knows the options of the two demo models: forget gate full or none, key and value
/// shift, QK-norm, rotary positions, output norm and gate.
class DenseTransformer {
 public:
  /// @throws Error for a checkpoint with other options
  explicit DenseTransformer(const Checkpoint& checkpoint);

  /// From here on a loss can be differentiated by every weight.
  void require_gradients();
  /// The gradients of a loss by all weights, in float32.
  [[nodiscard]] std::map<std::string, at::Tensor> gradients(const at::Tensor& loss) const;

  /// @param input_ids  [L] int64, what each position reads
  /// @param labels     [L] int64, what each position predicts
  /// @returns [L] float32, nats
  [[nodiscard]] at::Tensor per_token_loss(const at::Tensor& input_ids, const at::Tensor& labels,
                                          DenseAttention attention) const;

 private:
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] at::Tensor heads(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor shifted(const at::Tensor& x, const std::string& projection, bool shift) const;
  [[nodiscard]] at::Tensor attend(const at::Tensor& x, const std::string& layer, DenseAttention attention) const;
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, const std::string& layer) const;

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

}  // namespace foxscope::bench
