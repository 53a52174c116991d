#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// product[t, x] = silu(in_t.gate_x) (in_t.value_x): a matrix product with SwiGLU in the registers where it was made,
/// so that neither half is rounded or goes through memory. All pointers are to memory of the current device.
struct SwiGluProduct {
  std::int64_t rows = 0;
  std::int64_t width = 0;        ///< D, a multiple of 8
  std::int64_t inner = 0;        ///< I, a multiple of 8
  const void* in = nullptr;      ///< [n, D] bf16, rows that start at multiples of 16 bytes
  std::int64_t in_stride = 0;    ///< elements from one row to the next
  const void* weight = nullptr;  ///< [2 I, D] bf16, aligned to 16 bytes: I rows of gates, then I of values
  void* product = nullptr;       ///< [n, I] bf16, aligned to 16 bytes
};

/// Asynchronous on the stream. A row's numbers do not depend on the other rows.
/// @returns invalid_argument for a size below 1 or not a multiple of 8, a stride below D, a null or unaligned pointer;
///          unavailable without a device of compute capability 9.0 or in a build without CUDA; failed where a launch
///          fails
Status swiglu_product(const SwiGluProduct& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
