#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/kept_results_torch.h"

/// The position-wise steps of a layer as LibTorch's operations, on any device.
namespace foxscope::composed_steps {

/// in W^T with float32 results, whatever the dtype of the operands.
/// @param in      [rows, depth]
/// @param weight  [columns, depth], same dtype
at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight);

/// in W^T + bias, float32.  @param bias  undefined: none
at::Tensor affine(const at::Tensor& in, const at::Tensor& weight, const at::Tensor& bias);

/// in W^T in the dtype of the operands.
/// @param kept  may be null
at::Tensor product(const at::Tensor& in, const at::Tensor& weight, KeptResults* kept);

/// sum + in W^T, float32, in new memory.
/// @param sum   [rows, columns] float32
/// @param kept  may be null
at::Tensor add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight, KeptResults* kept);

/// Products of matrices [B, n, k] and [B, k, m] with float32 results, whatever the dtype of the operands.
at::Tensor products_to_float(const at::Tensor& a, const at::Tensor& b);

/// x / sqrt(mean(x^2) + epsilon) * weight over the last axis, float32; x where the weight is not defined.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// cap tanh(x / cap); x where cap is 0.
at::Tensor capped(const at::Tensor& x, double cap);

/// (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias over the last axis, float32.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon);

/// Rotary embedding of the first r numbers of each head, first half with second half; angles in float64.
/// @param x               [B, L, H, d] float32
/// @param frequencies     [r / 2] float64, radians a position; or [B, r / 2], of each text its own
/// @param factor          that cosines and sines are multiplied by
/// @param first_position  of x
at::Tensor rotate(const at::Tensor& x, const at::Tensor& frequencies, double factor, std::int64_t first_position);

/// a x_{t-1} + (1 - a) x_t with a = sigmoid(gate_logit).
/// @param x           [B, L, H, d] float32
/// @param before      [H, d] what precedes x, of one sequence; undefined: zeros
/// @param gate_logit  [B, L, H] float32
at::Tensor shift(const at::Tensor& x, const at::Tensor& before, const at::Tensor& gate_logit);

}  // namespace foxscope::composed_steps
