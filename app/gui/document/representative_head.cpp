#include "app/gui/document/representative_head.h"

#include <cmath>
#include <limits>

#include "backend/base/error.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/trace/decay_time.h"

namespace foxscope::gui {
namespace {

constexpr double kShort = 0.25;  // of the text

RepresentativeHead byDecayTime(const Trace& trace) {
  const TraceInfo& info = trace.info();
  const auto length = static_cast<double>(info.length);
  RepresentativeHead best;
  double longest = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (int layer = 0; layer < info.layers; ++layer) {
    // Where some layers forget, the choice is among their heads.
    if (!forgets(info, layer)) continue;
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      const double time = decay_time(mean_log_gate(trace, layer, head));
      if (std::isnan(time)) continue;
      const bool fits = time <= kShort * length;
      if (fits ? time <= longest : longest > 0 || time >= shortest) continue;
      (fits ? longest : shortest) = time;
      best = {layer, head};
    }
  }
  return best;
}

}  // namespace

RepresentativeHead representativeHead(const Trace& trace) {
  if (!forgets(trace.info())) return {};
  try {
    return byDecayTime(trace);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace foxscope::gui
