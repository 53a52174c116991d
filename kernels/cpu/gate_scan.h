#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// c[i] = sum_{l<=i} log f_l with compensated float64 summation, log f clamped at -1000 (docs/models.md).
/// @param log_gate  [rows, length] float32 or float64 contiguous, nats
/// @param cumulative  [rows, length]
void cumulative_log_gate(const float* log_gate, std::int64_t rows, std::int64_t length, double* cumulative);
void cumulative_log_gate(const double* log_gate, std::int64_t rows, std::int64_t length, double* cumulative);

}  // namespace foxscope::kernels::cpu
