#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "backend/base/index.h"
#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/backward/pointwise_ops_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// The state that the steps of a FusedGradientForward share, forward and backward: kernels between the matrix products,
/// products whose sums are float32, and the gradient by x. R = B n rows.
class FusedPass {
 public:
  /// @param pass     must outlive it, as options must
  /// @param options  whose weights are of none where none are wanted
  FusedPass(TorchPass& pass, const GradientOptions& options, bool wants_weights);

  void begin();

  [[nodiscard]] TorchPass& torch() const { return torch_; }
  [[nodiscard]] PointwiseOps& ops() const { return *ops_; }
  [[nodiscard]] const GradientOptions& options() const { return options_; }
  /// Whether the loss is differentiated by weights.
  [[nodiscard]] bool wants_weights() const { return wants_weights_; }
  /// The gradients by a layer's weights that are wanted.
  [[nodiscard]] const TorchLayer& grad_weights(int layer) const { return options_.weights->layers[index_of(layer)]; }
  /// norm(x), as the matrix products read it, [R, D], until the next is made.
  /// @param with_rest  whether what rounding takes from it is wanted too
  [[nodiscard]] at::Tensor normed_rows(const at::Tensor& x, const at::Tensor& weight, bool with_rest);
  /// [R, 2, D] that norm, and what rounding took from it; [R, 1, D] on a CPU
  [[nodiscard]] const at::Tensor& normed_pair() const { return normed_pair_; }
  /// sum + in W^T, float32.
  [[nodiscard]] at::Tensor add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight) const;
  /// grad_weight += grad_out^T in: the gradient by a weight of out = in W^T, where it is wanted.
  void add_weight_gradient(const at::Tensor& grad_weight, const at::Tensor& grad_out, const at::Tensor& in) const;

  at::Tensor grad_residual;  ///< [R, D] float32, the gradient by x

 private:
  TorchPass& torch_;
  const GradientOptions& options_;
  bool wants_weights_;
  std::unique_ptr<PointwiseOps> ops_;
  at::Tensor normed_pair_;
};

}  // namespace foxscope
