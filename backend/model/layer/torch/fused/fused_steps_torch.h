#pragma once

#include <ATen/core/Tensor.h>

// Steps between a layer's matrix products by kernels/cuda, differentiable.
namespace foxscope {

/// Whether fused_norm takes them: on a GPU, dense rows with a weight.
/// @param matrix  the dtype of matrices
bool fused_norm_takes(const at::Tensor& rows, const at::Tensor& weight, at::ScalarType matrix);

struct NormedRows {
  at::Tensor half;  ///< [R, D] bfloat16
  at::Tensor full;  ///< [R, D] float32; undefined where it is not wanted
};

/// x / sqrt(mean(x^2) + epsilon) * weight, one kernel each way.
/// @param rows       [R, D] float32
/// @param with_full  whether it is wanted in float32 as well
/// @pre fused_norm_takes
NormedRows fused_norm(const at::Tensor& rows, const at::Tensor& weight, double epsilon, bool with_full);

/// silu(g) u of wide = [g, u], one kernel each way.
/// @param wide  [R, 2 I] bfloat16 on a GPU, dense
/// @returns [R, I] bfloat16
at::Tensor fused_swiglu(const at::Tensor& wide);

}  // namespace foxscope
