#pragma once

#include <limits>
#include <span>

namespace foxscope {

/// Decay time T = -1 / mean(log f), tokens; infinite where the mean is 0 (f = 1 everywhere, of either sign).
/// @param mean_log_gate  nats per token
inline double decay_time(double mean_log_gate) {
  return mean_log_gate == 0.0 ? std::numeric_limits<double>::infinity() : -1.0 / mean_log_gate;
}

/// Mean of log f over positions 1 to L-1, nats per token: F_ij is the product of f over j < l <= i, so that f_0 is in
/// no F. NaN for one position.
/// @param c  [L] cumulative log gates of one head, nats; L >= 1
inline double mean_log_gate(std::span<const double> c) {
  return (c.back() - c.front()) / static_cast<double>(c.size() - 1);
}

}  // namespace foxscope
