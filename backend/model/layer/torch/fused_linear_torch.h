#pragma once

#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/composed_linear_torch.h"

namespace foxscope {

/// Whether fused_linear_mixing takes them: on a GPU with matrices in bfloat16, heads that read queries and keys in the
/// same groups and values of their own, widths that are multiples of 8 and keys' of at most 256, at least a chunk, and
/// a decay a head or, where nothing is differentiated, a channel or the delta rule.
bool fused_linear_takes(const LinearOperands& operands, at::ScalarType matrix);

/// composed_linear_mixing on a GPU: products of bfloat16 with what stands between them fused (kernels/cuda), decays
/// from sums in float64 within chunks of 64, sums between chunks in float32. Differentiable with a decay a head.
/// @returns y as composed_linear_mixing, in bfloat16 where nothing is differentiated
/// @pre fused_linear_takes
std::optional<at::Tensor> fused_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                              const std::stop_token& stop);

/// Whether fused_convolution takes them: on a GPU, 2 to 4 taps, and nothing before x where it is differentiated.
bool fused_convolution_takes(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight);

/// silu of composed_convolution, one kernel each way.
/// @param x       [B, n, C] float32, or bfloat16 where nothing is differentiated
/// @param before  undefined: zeros
/// @pre fused_convolution_takes
at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                             const at::Tensor& bias);

/// Whether fused_unit_heads takes them: on a GPU, where nothing is differentiated, heads of a multiple of 4.
bool fused_unit_heads_takes(const at::Tensor& x, std::int64_t head_dim);

/// composed_linear_norm of heads by LinearNorm::l2 times a factor, one kernel.
/// @param x  [B, n, H d] float32
/// @returns [B, H, n, d] float32
/// @pre fused_unit_heads_takes
at::Tensor fused_unit_heads(const at::Tensor& x, std::int64_t head_dim, double factor);

/// The operands of the steps between a linear mixer's operator and its last product (LinearMixer).
struct LinearOutput {
  at::Tensor mixed;  ///< [B, H, n, d_v] y, float32 or bfloat16
  at::Tensor value;  ///< [B, H, n, d_v] float32 v
  at::Tensor gate;   ///< [B, n, H d_v] z, float32 or bfloat16; undefined without
  at::Tensor skip;   ///< [H], or [H, d_v]; undefined without
  at::Tensor norm;   ///< [H d_v] or, the same for all groups, [norm_size]; undefined without
};

/// Whether fused_linear_output takes them: on a GPU with matrices in bfloat16, where nothing is differentiated.
bool fused_linear_output_takes(const LinearMixer& mixer, const LinearOutput& output, at::ScalarType matrix);

/// y + D v, normed and gated (TorchLinearSteps), one kernel.
/// @returns [B n, H d_v] bfloat16
/// @pre fused_linear_output_takes
at::Tensor fused_linear_output(const LinearMixer& mixer, const LinearOutput& output);

}  // namespace foxscope
