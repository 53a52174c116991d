#include "backend/map/statistics/gate_mean.h"

#include "backend/map/maps_elsewhere.h"
#include "backend/trace/decay_time.h"

namespace foxscope {

double mean_log_gate(const Trace& trace, int layer, int head) {
  trace.check_head(layer, head);
  const bool kept =
      trace.has(TraceArray::cumulative_log_gate, layer) || trace.has(TraceArray::cumulative_log_decay, layer);
  const auto* const there = kept ? elsewhere(trace) : nullptr;
  return there != nullptr ? there->mean_log_gate(layer, head) : mean_log_gate(trace.cumulative_log_gate(layer, head));
}

}  // namespace foxscope
