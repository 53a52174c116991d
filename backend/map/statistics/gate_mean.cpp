#include "backend/map/statistics/gate_mean.h"

#include <optional>

#include "backend/map/maps_elsewhere.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/row_source.h"

namespace foxscope {
double mean_log_gate(const Trace& trace, int layer, int head) {
  trace.check_head(layer, head);
  const bool kept =
      trace.has(TraceArray::cumulative_log_gate, layer) || trace.has(TraceArray::cumulative_log_decay, layer);
  const auto* const there = kept ? elsewhere(trace) : nullptr;
  if (there != nullptr) return there->mean_log_gate(layer, head);
  const auto* const by_row = kept ? dynamic_cast<const RowSource*>(&trace.source()) : nullptr;
  if (by_row != nullptr) {
    if (const auto mean = by_row->known_mean_log_gate(layer, head)) return *mean;
  }
  return mean_log_gate(trace.cumulative_log_gate(layer, head));
}

}  // namespace foxscope
