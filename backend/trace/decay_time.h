#pragma once

#include <limits>
#include <span>

namespace foxscope {

/// Decay time T = -1 / mean(log f), tokens; infinite where the mean is 0 (f = 1 everywhere, of either sign).
/// @param mean_log_gate  nats per token
inline double decay_time(double mean_log_gate) {
  return mean_log_gate == 0.0 ? std::numeric_limits<double>::infinity() : -1.0 / mean_log_gate;
}

/// Mean of log f over positions, nats per token.
/// @param c  [L] cumulative log gates of one head, nats; L >= 1
inline double mean_log_gate(std::span<const double> c) { return c.back() / static_cast<double>(c.size()); }

}  // namespace foxscope
