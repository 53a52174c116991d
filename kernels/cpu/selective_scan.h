#pragma once

#include <cstdint>
#include <stop_token>

#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels::cpu {

/// Arguments of selective_scan: one sequence, all rows contiguous float32.
struct SelectiveScan {
  std::int64_t channels = 0;          ///< H
  std::int64_t length = 0;            ///< n
  std::int64_t state_size = 0;        ///< d
  const float* input = nullptr;       ///< [n, H] u
  const float* step = nullptr;        ///< [n, H] dt, how much of an input is written
  const float* decay_step = nullptr;  ///< [n, H] the dt that states decay by; null: `step`
  const float* rate = nullptr;        ///< [d, H] not negative
  const float* key = nullptr;         ///< [n, d] B
  const float* query = nullptr;       ///< [n, d] C
  float* state = nullptr;             ///< [H, d] x before the first position; then behind the last
  float* output = nullptr;            ///< [n, H] y, rows output_stride apart
  std::int64_t output_stride = 0;
};

/// The selective scan (Gu and Dao 2023, equation 2 with the discretisation of section 3.2 that is Euler's of B):
///
///     x_ha(t) = exp(-decay_step_h(t) rate_ah) x_ha(t - 1) + step_h(t) u_h(t) B_a(t),   y_h(t) = sum_a C_a(t) x_ha(t)
///
/// position by position, with channels beside one another in vectors and their states in a core's cache. A block of
/// channels is a task. O(n) time, and memory that does not depend on n. A channel has the same digits whatever other
/// channels there are and however a text is cut.
/// @returns cancelled, with the state and the output incomplete; invalid_argument
Status selective_scan(const SelectiveScan& arguments, Executor& executor, const std::stop_token& stop);

/// Gradients of a loss by what a scan reads, from that by what it gives. All float32, rows contiguous.
struct SelectiveScanGradients {
  const float* output = nullptr;  ///< [n, H] by y
  float* state = nullptr;         ///< [H, d] by x behind the last position; then by x before the first
  float* input = nullptr;         ///< [n, H] by step u, and so by u it is step times this, by step u times this
  float* decay_step = nullptr;    ///< [n, H]
  float* rate = nullptr;          ///< [d, H]
  float* key = nullptr;           ///< [n, d]
  float* query = nullptr;         ///< [n, d]
};

/// The backward pass through a scan from its state before the first position, which is left as it is. With G_t the
/// gradient by x(t), that by y and by x(t + 1) together,
///
///     G_ha(t) = exp(-decay_step_h(t + 1) rate_ah) G_ha(t + 1) + C_a(t) dy_h(t),
///
/// by C_a(t) it is sum_h x_ha(t) dy_h(t), by B_a(t) sum_h G_ha(t) step_h(t) u_h(t), by step u sum_a G_ha(t) B_a(t), and
/// by the exponent G_ha(t) x_ha(t - 1) exp(.). States are made once more, 64 positions at a time from those that were
/// kept at their beginnings: O(n) time, and d H / 64 numbers a position of memory. Sums over channels are in blocks of
/// them, added in their order: the same bits for any number of threads.
/// @param arguments  `output` is not looked at
/// @returns cancelled; invalid_argument
Status selective_scan_backward(const SelectiveScan& arguments, const SelectiveScanGradients& gradients,
                               Executor& executor, const std::stop_token& stop);

}  // namespace foxscope::kernels::cpu
