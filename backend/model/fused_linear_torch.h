#pragma once

#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/composed_linear_torch.h"

namespace foxscope {

/// Whether fused_linear_mixing takes them: on a GPU with matrices in bfloat16, heads that read queries and keys in the
/// same groups and values of their own, widths that are multiples of 8 and keys' of at most 256, at least a chunk, and
/// a decay a head or, where nothing is differentiated, a channel or the delta rule.
bool fused_linear_takes(const LinearOperands& operands, at::ScalarType matrix);

/// composed_linear_mixing on a GPU: products of bfloat16 with what stands between them fused (kernels/cuda), decays
/// from sums in float64 within chunks of 64, sums between chunks in float32. Differentiable with a decay a head.
/// @pre fused_linear_takes
std::optional<at::Tensor> fused_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                              const std::stop_token& stop);

/// Whether fused_convolution takes them: on a GPU, 2 to 4 taps, and nothing before x where it is differentiated.
bool fused_convolution_takes(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight);

/// silu of composed_convolution, one kernel each way.
/// @param before  undefined: zeros
/// @pre fused_convolution_takes
at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                             const at::Tensor& bias);

}  // namespace foxscope
