#pragma once

#include <span>

#include <ATen/core/Tensor.h>

/// The position-wise steps of a layer as LibTorch's operations, on any device.
namespace foxscope::composed_steps {

/// in W^T with float32 results, whatever the dtype of the operands.
/// @param in      [rows, depth]
/// @param weight  [columns, depth], same dtype
at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight);

/// x / sqrt(mean(x^2) + epsilon) * weight over the last axis, float32.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias over the last axis, float32.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);

/// Rotary embedding of the first r = 2 * frequencies.size() numbers of each head, first half with second half; angles
/// in float64.
/// @param x               [L, H, d] float32
/// @param frequencies     radians a position (rotary_frequencies)
/// @param first_position  of x
at::Tensor rotate(const at::Tensor& x, std::span<const double> frequencies, std::int64_t first_position);

/// a x_{t-1} + (1 - a) x_t with a = sigmoid(gate_logit).
/// @param x           [L, H, d] float32
/// @param before      [1, H, d] what precedes x; undefined: zeros
/// @param gate_logit  [L, H] float32
at::Tensor shift(const at::Tensor& x, const at::Tensor& before, const at::Tensor& gate_logit);

}  // namespace foxscope::composed_steps
