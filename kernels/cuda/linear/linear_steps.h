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

}  // namespace foxscope::kernels::cuda
