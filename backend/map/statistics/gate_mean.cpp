#include "backend/map/statistics/gate_mean.h"

#include <optional>

#include "backend/map/maps_elsewhere.h"
#include "backend/trace/decay_time.h"
#include "backend/trace/row_source.h"

namespace foxscope {
namespace {

/// The mean from the ends of c alone, where they are all that is needed; nothing where they are not.
std::optional<double> mean_by_ends(const Trace& trace, int layer, int head) {
  const auto* const by_row = dynamic_cast<const RowSource*>(&trace.source());
  const std::int64_t length = trace.info().length;
  if (by_row == nullptr || by_row->waits() || length < 2 || !trace.has(TraceArray::cumulative_log_gate, layer)) {
    return std::nullopt;
  }
  const auto ends = by_row->ends(TraceArray::cumulative_log_gate, layer, head);
  // Where all gates together come to less than one that is cut, none is.
  if (!ends || ends->first - ends->second >= -kLowestLogGate / 2) return std::nullopt;
  const double pair[] = {ends->first, ends->second};
  return mean_log_gate(pair) / static_cast<double>(length - 1);
}

}  // namespace

double mean_log_gate(const Trace& trace, int layer, int head) {
  trace.check_head(layer, head);
  const bool kept =
      trace.has(TraceArray::cumulative_log_gate, layer) || trace.has(TraceArray::cumulative_log_decay, layer);
  const auto* const there = kept ? elsewhere(trace) : nullptr;
  if (there != nullptr) return there->mean_log_gate(layer, head);
  if (const auto mean = mean_by_ends(trace, layer, head)) return *mean;
  return mean_log_gate(trace.cumulative_log_gate(layer, head));
}

}  // namespace foxscope
