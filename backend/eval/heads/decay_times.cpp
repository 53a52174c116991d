#include "backend/eval/heads/decay_times.h"

#include <limits>

#include "backend/trace/decay_time.h"

namespace foxscope {

HeadArray decay_times(const HeadArray& mean_log_gate) {
  HeadArray times{"rate_decay_time", "tokens", {}, {}};
  for (std::size_t n = 0; n < mean_log_gate.value.size(); ++n) {
    const double mean = mean_log_gate.value[n];
    times.value.push_back(decay_time(mean));
    times.error.push_back(mean == 0.0 ? std::numeric_limits<double>::quiet_NaN()
                                      : mean_log_gate.error[n] / (mean * mean));
  }
  return times;
}

}  // namespace foxscope
