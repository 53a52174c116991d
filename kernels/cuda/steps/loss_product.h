#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Losses of the logits in_t.head_x, loss[t] = log sum_x exp(logit[t, x]) - logit[t, label[t]], nats, of which no logit
/// goes through memory. All pointers are to memory of the current device.
struct LossProduct {
  std::int64_t rows = 0;
  std::int64_t width = 0;                ///< D, a multiple of 8
  std::int64_t vocabulary = 0;           ///< V
  const void* in = nullptr;              ///< [n, D] bf16, rows that start at multiples of 16 bytes
  std::int64_t in_stride = 0;            ///< elements from one row to the next
  const void* head = nullptr;            ///< [V, D] bf16, aligned to 16 bytes
  const std::int32_t* labels = nullptr;  ///< [n]; one outside [0, V) gives NaN
  float* loss = nullptr;                 ///< [n]
  void* workspace = nullptr;             ///< loss_product_bytes() of it, aligned to 16
};

/// Bytes of workspace: two numbers a row and 256 logits, and one a row.
std::size_t loss_product_bytes(const LossProduct& arguments);

/// Asynchronous on the stream.
/// @returns invalid_argument for a size below 1, a width that is not a multiple of 8, a stride below D, a null or
///          unaligned pointer; unavailable without a device of compute capability 9.0 or in a build without CUDA;
///          failed where a launch fails
Status loss_product(const LossProduct& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
