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

  /// Begins the backward pass with 0 for the gradient by x.
  void begin_backward();
  /// Adds to the gradient by x what comes through a norm of x (PointwiseOps::norm_backward).
  void norm_backward(const PointwiseOps::Norm& step, const at::Tensor& grad_normed, const at::Tensor& grad_weight);
  /// [R, D] float32, the gradient by x.
  [[nodiscard]] const at::Tensor& grad_residual() const { return grad_residual_; }
  /// The same in the matrices' dtype.
  [[nodiscard]] const at::Tensor& grad_rounded() const { return rounded_.defined() ? rounded_ : grad_residual_; }

 private:
  TorchPass& torch_;
  const GradientOptions& options_;
  bool wants_weights_;
  std::unique_ptr<PointwiseOps> ops_;
  at::Tensor normed_pair_;
  at::Tensor grad_residual_;
  at::Tensor rounded_;  ///< undefined in float32
};

}  // namespace foxscope
