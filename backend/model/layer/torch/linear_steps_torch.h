#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/weights/torch_weights_torch.h"

/// The steps of a linear mixer's layer on both sides of its operator, as LibTorch's operations.
namespace foxscope::linear_steps {

struct Projection {
  LinearOperands operands;
  at::Tensor gate;    ///< [B, n, H d_v] z of the output, float32 or bfloat16; undefined without
  at::Tensor window;  ///< [B, taps - 1, columns] float32 what the convolution reads again; undefined without one
};

/// q, k, v, log alpha and beta of each position: one product, the convolution, activations and norms (LinearMixer).
/// @param batch   B
/// @param normed  [B n, D] in the matrices' dtype
/// @param gates   [B n, ...] float32, LinearColumns' from `precise` on of the product of what `normed` was rounded from
/// @param window  [B, taps - 1, columns] of the positions before; undefined before the first
Projection project(const TorchWeights& weights, int layer, std::int64_t batch, const at::Tensor& normed,
                   const at::Tensor& gates, const at::Tensor& window);

/// y + D v, normed and gated: what the last product reads.
/// @param mixed  [B, H, n, d_v] y, float32 or bfloat16
/// @returns [B n, H d_v] float32, or bfloat16 where a kernel makes it so
at::Tensor finish(const TorchWeights& weights, int layer, const at::Tensor& mixed, const Projection& projection);

}  // namespace foxscope::linear_steps
