#pragma once

#include <limits>
#include <span>

namespace foxscope {

/// Decay time T = -1 / mean(log f), tokens; infinite where the mean is 0 (f = 1 everywhere, of either sign).
/// @param mean_log_gate  nats per token
inline double decay_time(double mean_log_gate) {
  return mean_log_gate == 0.0 ? std::numeric_limits<double>::infinity() : -1.0 / mean_log_gate;
}

/// Lowest log f that is summed: below it the past is cut exactly, and no difference of sums is ever inf - inf.
inline constexpr double kLowestLogGate = -1000.0;

/// Mean of log f over positions 1 to L-1, nats per token: F_ij is the product of f over j < l <= i, so that f_0 is in
/// no F. Positions whose gate is cut to 0 have no rate and are left out, unless all are. NaN for one position.
/// @param c  [L] cumulative log gates of one head, nats; L >= 1
inline double mean_log_gate(std::span<const double> c) {
  constexpr double kCutRounding = 1e-6;  // of sums of cut gates
  double sum = c.back() - c.front();
  std::size_t count = c.size() - 1;
  for (std::size_t t = 1; t < c.size(); ++t) {
    const double log_gate = c[t] - c[t - 1];
    if (log_gate > kLowestLogGate * (1 - kCutRounding)) continue;
    sum -= log_gate;
    --count;
  }
  if (count == 0 && c.size() > 1) return kLowestLogGate;
  return sum / static_cast<double>(count);
}

}  // namespace foxscope
