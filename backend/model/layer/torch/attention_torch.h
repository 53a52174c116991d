#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/mixer_steps.h"
#include "backend/model/layer/torch/composed_attention_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// Attention with a forget gate or without one (Lin et al. 2025, eq. 6) by LibTorch's operations, on any device. On a
/// GPU the sums of gates and attention itself are kernels/cuda's where they take the head dimension. With n = norm(x):
///
///     q, k, v = n W_q, n W_k, n W_v, k and v shifted: k_t <- a_t k_(t-1) + (1 - a_t) k_t with a = sigmoid(n W_a),
///     q and k normed and turned by their positions; logits of f = n W_f + b_f;
///     c_i = sum_{l <= i} log f_l, as the probes change log f;
///     o = softmax(q k^T / sqrt(d) + D) v with D_ij = c_i - c_j; the state takes k, v and c up;
///     x += act(n W_g) * norm(o) W_o, without the heads that a probe cuts.
class TorchAttentionSteps : public MixerSteps {
 public:
  /// @param pass  must outlive it
  explicit TorchAttentionSteps(TorchPass& pass) : pass_(pass) {}

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

 protected:
  /// log f [B, H, n] float64 on the device, before interventions; zeros where every f is 1.
  [[nodiscard]] at::Tensor log_gates(int layer) const;
  /// o by LibTorch's operations, a tile of rows and keys at a time; hands the normalisers to the recorders.
  /// @param cumulative  c, undefined where every f is 1
  /// @param tolerance   of pruning
  /// @returns nothing if the job was stopped
  std::optional<ComposedAttentionResult> attend_in_tiles(int layer, const at::Tensor& cumulative, double tolerance);

  TorchPass& pass_;
  at::Tensor query_;       ///< [B, H, n, d] in the run's dtype, of any strides but the last
  at::Tensor key_;         ///< [B, H_kv, n, d] likewise
  at::Tensor value_;       ///< likewise
  at::Tensor gates_;       ///< [B n, ...] float32 logits of shifts and forget gate; undefined where there are none
  at::Tensor cumulative_;  ///< [B, H, n] float64 c; undefined where every f is 1
  at::Tensor
      erase_read_;  ///< [B, H_kv, n, d] float32 e and b that keys are passed on by (PathDirections); or undefined
  at::Tensor erase_write_;
  at::Tensor attended_;  ///< [B n, H, d] o in the run's dtype, or float32

 private:
  [[nodiscard]] at::Tensor norm_heads(const at::Tensor& heads, const at::Tensor& weight) const;
  void rotate(int layer, at::Tensor& query, at::Tensor& key) const;
  void project_latent(int layer);
  void project_path(int layer, const at::Tensor& gates);
  void sum_gates_by_kernel(int layer);
  void start_states(int layer);
  void attend_by_kernel(int layer);
  void attend_next(int layer);

  at::Tensor normed_;  ///< [B n, D] float32 norm(x)
};

}  // namespace foxscope
