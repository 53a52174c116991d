#pragma once

#include <ATen/core/Tensor.h>

// Steps between a layer's matrix products by kernels/cuda, differentiable.
namespace foxscope {

/// Whether fused_norm takes them: on a GPU, dense rows with a weight.
/// @param matrix  the dtype of matrices
bool fused_norm_takes(const at::Tensor& rows, const at::Tensor& weight, at::ScalarType matrix);

/// n = x / sqrt(mean(x^2) + epsilon) * weight, one kernel each way.
/// @param rows  [R, D] float32
/// @returns [R, D] bfloat16
/// @pre fused_norm_takes
at::Tensor fused_norm(const at::Tensor& rows, const at::Tensor& weight, double epsilon);

struct NormedGates {
  at::Tensor normed;  ///< [R, D] bfloat16, rows may lie apart
  at::Tensor gates;   ///< [R, G] float32, n W^T up to 2^-17 of each product
};

/// The same with what gates are made of. Going back, the gradient by gates is rounded to bfloat16.
/// @param weight  the norm's
/// @param matrix, high, rest  TorchLayer's gates W, gates_high, gates_rest; the gradient is by W
NormedGates fused_norm_gates(const at::Tensor& rows, const at::Tensor& weight, double epsilon, const at::Tensor& matrix,
                             const at::Tensor& high, const at::Tensor& rest);

/// silu(g) u of wide = [g, u], one kernel each way.
/// @param wide  [R, 2 I] bfloat16 on a GPU, dense
/// @returns [R, I] bfloat16
at::Tensor fused_swiglu(const at::Tensor& wide);

}  // namespace foxscope
