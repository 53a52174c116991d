#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Cumulative log gates, c[h, i] = sum_{l<=i} log f[h, l] with log f = logsigmoid(logit) in float64 (Lin et al. 2025,
/// eq. 4-6; kernels/cpu's cumulative_log_gate). Exactly one of the three inputs is given; all pointers are to memory of
/// the current device. log f is held within [-1000, 0] before it is summed; NaN reaches all later sums of its head.
struct GateScan {
  std::int64_t batch = 1;  ///< B sequences, each with sums of its own
  std::int64_t heads = 0;
  std::int64_t length = 0;                 ///< at most 4,194,304
  const float* logits = nullptr;           ///< [B, L, H]
  std::int64_t logits_stride = 0;          ///< elements from one position to the next, at least H
  const float* constant_logits = nullptr;  ///< [H], the same at each position
  const double* log_gate = nullptr;        ///< [B, H, L] contiguous: log f itself, nats
  double* cumulative = nullptr;            ///< [B, H, L] contiguous, nats; may be log_gate
  void* workspace = nullptr;               ///< gate_scan_workspace_bytes() of it, aligned to 256
};

/// Bytes of workspace for these sizes; 0 where they cannot be taken.
/// @param heads  B H
std::size_t gate_scan_workspace_bytes(std::int64_t heads, std::int64_t length);

/// One pass over the sequence, asynchronous on the stream. Sums are made in 128-bit integers of 2^-96 nats: they do not
/// depend on how the work is divided, never rise, and are rounded once.
/// @returns invalid_argument for a size below 1 or too large, none or several inputs, a stride below H, a null
///          output or workspace; unavailable without a device or in a build without CUDA; failed where a launch fails
Status gate_scan(const GateScan& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
