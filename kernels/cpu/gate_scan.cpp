#include "kernels/cpu/gate_scan.h"

#include <cmath>

namespace foxscope::kernels::cpu {
namespace {

constexpr double kLowestLogGate = -1000.0;

template <typename T>
void accumulate(const T* log_gate, std::int64_t rows, std::int64_t length, double* cumulative) {
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0.0;
    double lost = 0.0;  // what rounding took from sum (Neumaier 1974)
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
      const auto gate = static_cast<double>(log_gate[i]);
      const double term = gate < kLowestLogGate ? kLowestLogGate : gate;
      const double next = sum + term;
      lost += std::abs(sum) >= std::abs(term) ? (sum - next) + term : (term - next) + sum;
      sum = next;
      cumulative[i] = sum + lost;
    }
  }
}

}  // namespace

void cumulative_log_gate(const float* log_gate, std::int64_t rows, std::int64_t length, double* cumulative) {
  accumulate(log_gate, rows, length, cumulative);
}

void cumulative_log_gate(const double* log_gate, std::int64_t rows, std::int64_t length, double* cumulative) {
  accumulate(log_gate, rows, length, cumulative);
}

}  // namespace foxscope::kernels::cpu
