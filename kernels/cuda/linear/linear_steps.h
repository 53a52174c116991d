#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

// Steps of a linear mixer's layer around its operator, each one pass over its data: B sequences of L positions, H heads
// of d numbers. Contracts as in steps.h; rows start at multiples of 16 bytes.
namespace foxscope::kernels::cuda {

/// Heads of length `factor`: y = factor x / sqrt(sum(x^2) + epsilon), the sum over d.
struct UnitHeads {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;      ///< a multiple of 4 up to 1024
  const float* x = nullptr;       ///< [B, L, H d], the last axis dense
  std::int64_t batch_stride = 0;  ///< of x, elements
  std::int64_t row_stride = 0;    ///< of x, elements
  float epsilon = 0;
  float factor = 1;
  float* out = nullptr;  ///< [B, L, H, d]
};
Status unit_heads(const UnitHeads& arguments, Stream stream);

/// Gradients of a loss through unit_heads: with r = 1 / sqrt(sum(x^2) + epsilon), dx = factor r (dy - x r^2 sum(x dy)).
/// `out` is not read.
struct UnitHeadsGradient : UnitHeads {
  const float* out_gradient = nullptr;  ///< dy [B, L, H, d], the last axis dense
  std::int64_t out_batch_stride = 0, out_row_stride = 0, out_head_stride = 0;
  float* x_gradient = nullptr;  ///< dx [B, L, H d]
};
Status unit_heads_gradient(const UnitHeadsGradient& arguments, Stream stream);

/// Decays and keys of HGRN2, of logits f and bounds b of a channel: alpha = b + (1 - b) sigmoid(f), and the key is 1 -
/// alpha.
struct DecayKeys {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;      ///< d
  const float* logit = nullptr;   ///< [B, L, H d] f, the last axis dense
  std::int64_t batch_stride = 0;  ///< of f, elements
  std::int64_t row_stride = 0;    ///< of f, elements
  const float* bound = nullptr;   ///< [H d] b, from 0 to below 1; null: 0
  double* log_decay = nullptr;    ///< [B, L, H d] log alpha, nats, float32's digits
  float* key = nullptr;           ///< [B, L, H d]
};
Status decay_keys(const DecayKeys& arguments, Stream stream);

/// Gradients of a loss through decay_keys, whose `log_decay` and `key` are not read.
struct DecayKeysGradient : DecayKeys {
  const double* log_decay_gradient = nullptr;  ///< [B, H, L, d] dense
  const float* key_gradient = nullptr;         ///< [B, L, H d] dense
  float* logit_gradient = nullptr;             ///< [B, L, H d]
  float* parts = nullptr;  ///< [decay_keys_parts, H d] parts of the gradient by b, to be summed; with bounds alone
};
/// The number of `parts`.
std::int64_t decay_keys_parts(const DecayKeys& arguments);
Status decay_keys_gradient(const DecayKeysGradient& arguments, Stream stream);

/// Turns an operator's output y into the input of the last product (docs/models.md): x = y + D v (where there is a
/// skip), x silu(z) (a gate before the norm), x / sqrt(mean(x^2) + epsilon) w over each norm_size neighbours, x silu(z)
/// (a gate behind it).
struct LinearOutput {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  ///< d, a multiple of 4; H d at most 4096
  const void* y = nullptr;    ///< [B, H, L, d], the last axis dense, as v
  ElementType y_type = ElementType::float32;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  const float* value = nullptr;  ///< [B, H, L, d] v; null: no skip
  std::int64_t value_batch_stride = 0, value_head_stride = 0, value_row_stride = 0;
  const float* skip = nullptr;  ///< D [H], or [H, d] where it is a number a channel
  bool skip_by_channel = false;
  const void* gate = nullptr;  ///< [B, L, H d] z, the last axis dense; null: no gate
  ElementType gate_type = ElementType::float32;
  std::int64_t gate_batch_stride = 0, gate_row_stride = 0;
  bool gate_before_norm = false;
  std::int64_t norm_size = 0;   ///< a multiple of 4 that divides H d; 0: no norm
  const float* norm = nullptr;  ///< [H d] w
  float epsilon = 0;
  void* out = nullptr;  ///< [B, L, H d] bf16
};
Status linear_output(const LinearOutput& arguments, Stream stream);

/// Gradients of a loss through linear_output, whose `out` is not read.
struct LinearOutputGradient : LinearOutput {
  const void* out_gradient = nullptr;  ///< [B, L, H d] bf16
  void* y_gradient = nullptr;          ///< [B, H, L, d] of y's type, the last axis dense
  float* value_gradient = nullptr;     ///< likewise, where there is a skip
  std::int64_t gradient_batch_stride = 0, gradient_head_stride = 0, gradient_row_stride = 0;  ///< of both
  void* gate_gradient = nullptr;  ///< [B, L, H d] of the gate's type, where there is a gate
  float* norm_parts = nullptr;    ///< [parts, H d] parts of the gradient by w, to be summed; where there is a norm
  float* skip_parts = nullptr;    ///< [parts, H d] parts of that by D of each channel, likewise
};
/// The number of `parts`.
std::int64_t linear_output_parts(const LinearOutput& arguments);
Status linear_output_gradient(const LinearOutputGradient& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
