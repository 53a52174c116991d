#pragma once

#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/mixer_steps.h"
#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// A linear mixer (LinearMixer has its equations) by LibTorch's operations, on any device; on a GPU in bfloat16 the
/// convolution, the operator and what stands behind it are kernels/cuda's where they take the sizes.
///
///     q, k, v = one product of norm(x), behind a causal convolution, activations and norms; log alpha, beta;
///     y_t = S_t^T q_t with S_t = diag(alpha_t) S_(t-1) + k_t (beta_t u_t)^T; the state takes S up;
///     x += W_o of y + D v, normed and gated, without the heads that a probe cuts.
class TorchLinearSteps : public MixerSteps {
 public:
  /// @param pass  must outlive it
  explicit TorchLinearSteps(TorchPass& pass);

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool attend(int layer) override;
  bool project_output(int layer) override;

 protected:
  /// Makes what the operator and the output read.
  /// @param normed  [B n, D] norm(x) in the matrices' dtype
  /// @param gates   [B n, ...] float32, LinearColumns' from `precise` on of the product of what `normed` was rounded
  ///                from
  void project_rows(int layer, const at::Tensor& normed, const at::Tensor& gates);
  /// y [B, states(), n, d_v]; nothing if the job was stopped.
  /// @param state  [B, states(), d, d_v] before the first position, undefined: 0; left as it is behind the last, where
  ///               states are kept
  virtual std::optional<at::Tensor> mix(at::Tensor& state);
  /// A decay or a beta that is not a number would make everything after it so.  @throws Error
  virtual void check_decays(int layer);
  /// y + D v, normed and gated: what the last product reads, [B n, H d_v] float32, or bfloat16 where a kernel makes it
  /// so. Lets go of what the steps before have made, so that the next layer's is made without it beside.
  at::Tensor take_output(int layer);
  /// y [B, H, n, d_v], which is let go of.
  at::Tensor take_mixed() { return std::exchange(mixed_, {}); }

  TorchPass& pass_;
  LinearOperands operands_;

 private:
  void select(int layer, const at::Tensor& value);
  void recur(int layer, const at::Tensor& value);
  [[nodiscard]] at::Tensor projected(const TorchLayer& weights, const at::Tensor& normed) const;
  void put_gate(int layer, const at::Tensor& columns);
  void put_decay(int layer, const at::Tensor& gates, at::Tensor& key);
  [[nodiscard]] at::Tensor constant_decay(int layer) const;
  at::Tensor feed_back(int layer, const at::Tensor& key, at::Tensor& query);
  [[nodiscard]] at::Tensor turned(const at::Tensor& heads) const;
  at::Tensor convolve(int layer, const at::Tensor& projected, bool& activated) const;
  void change_decays(int layer);
  std::optional<at::Tensor> mix_steps(int layer, at::Tensor& state);

  const LinearMixer& mixer_;
  const LinearColumns columns_;
  at::Tensor gate_;   ///< [B, n, H d_v] z of the output, float32 or bfloat16; undefined without
  at::Tensor mixed_;  ///< [B, H, n, d_v] y, float32 or bfloat16
};

}  // namespace foxscope
