#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "backend/model/spec/linear_mixer.h"

// Steps of a linear mixer's layer around its operator by kernels/cuda, all of them differentiable.
namespace foxscope {

/// Whether fused_convolution takes them: on a GPU, 2 to 4 taps, and nothing before x where it is differentiated.
bool fused_convolution_takes(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight);

/// silu of composed_convolution, one kernel each way.
/// @param x       [B, n, C] float32 or bfloat16
/// @param before  undefined: zeros
/// @pre fused_convolution_takes
at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& before, const at::Tensor& weight,
                             const at::Tensor& bias);

/// Whether fused_unit_heads takes them: on a GPU, heads of a multiple of 4.
bool fused_unit_heads_takes(const at::Tensor& x, std::int64_t head_dim);

/// composed_linear_norm of heads by LinearNorm::l2 times a factor, one kernel.
/// @param x  [B, n, H d] float32
/// @returns [B, H, n, d] float32
/// @pre fused_unit_heads_takes
at::Tensor fused_unit_heads(const at::Tensor& x, std::int64_t head_dim, double factor);

/// Whether fused_decay_keys takes them: on a GPU in float32.
bool fused_decay_keys_takes(const at::Tensor& logit);

/// log alpha and keys of HGRN2 (kernels/cuda, DecayKeys).
struct DecaysAndKeys {
  at::Tensor log_decay;  ///< [B, H, n, d] float64, nats
  at::Tensor key;        ///< [B, n, H d] float32
};
/// @param logit  [B, n, H d]
/// @param bound  [H d] that alpha is not below; undefined: 0
/// @pre fused_decay_keys_takes
DecaysAndKeys fused_decay_keys(const at::Tensor& logit, const at::Tensor& bound, std::int64_t head_dim);

/// The operands of the steps between a linear mixer's operator and its last product (LinearMixer).
struct LinearOutput {
  at::Tensor mixed;  ///< [B, H, n, d_v] y, float32 or bfloat16
  at::Tensor value;  ///< [B, H, n, d_v] float32 v
  at::Tensor gate;   ///< [B, n, H d_v] z, float32 or bfloat16; undefined without
  at::Tensor skip;   ///< [H], or [H, d_v]; undefined without
  at::Tensor norm;   ///< [H d_v] or, the same for all groups, [norm_size]; undefined without
};

/// Whether fused_linear_output takes them: on a GPU with matrices in bfloat16.
bool fused_linear_output_takes(const LinearMixer& mixer, const LinearOutput& output, at::ScalarType matrix);

/// y + D v, normed and gated (TorchLinearSteps), one kernel.
/// @returns [B n, H d_v] bfloat16
/// @pre fused_linear_output_takes
at::Tensor fused_linear_output(const LinearMixer& mixer, const LinearOutput& output);

}  // namespace foxscope
