#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Per-token loss of a chunk of logits, loss[t] = log sum_x exp(logits[t, x]) - logits[t, label[t]], nats. One pass
/// over the logits, whose rows may start anywhere. All pointers are to memory of the current device.
struct TokenLoss {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  const void* logits = nullptr;  ///< [n, V]
  ElementType logits_type = ElementType::bfloat16;
  std::int64_t logits_stride = 0;        ///< elements from one row to the next, at least V
  const std::int32_t* labels = nullptr;  ///< [n]; one outside [0, V) gives NaN
  float* loss = nullptr;                 ///< [n]
};

/// Asynchronous on the stream.
/// @returns invalid_argument for a size below 1, a stride below V, a null pointer;
///          unavailable without a device or in a build without CUDA; failed where a launch fails
Status token_loss(const TokenLoss& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
