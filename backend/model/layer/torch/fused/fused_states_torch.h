#pragma once

#include <ATen/core/Tensor.h>

namespace foxscope {

/// The states of a mixer before its chunks, where what a chunk writes does not depend on them (kernels/cuda,
/// PassedStates).
/// @param written  [B, H, N, d, d_v] bfloat16
/// @param kept     [B, H, N] or [B, H, N, d] float32
/// @param state    [B, H, d, d_v] float32, or undefined: 0; then what is behind the last chunk
/// @returns as `written`, S before each chunk
at::Tensor fused_states_before(const at::Tensor& written, const at::Tensor& kept, at::Tensor& state);

/// Gradients of a loss through fused_states_before from 0, from that by S before each chunk.
struct StatesGradient {
  at::Tensor written;  ///< [B, H, N, d, d_v] bfloat16
  at::Tensor kept;     ///< as `kept`
};
StatesGradient fused_states_gradient(const at::Tensor& before, const at::Tensor& kept,
                                     const at::Tensor& before_gradient);

}  // namespace foxscope
