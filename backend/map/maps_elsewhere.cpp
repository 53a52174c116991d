#include "backend/map/maps_elsewhere.h"

namespace foxscope {

const MapsElsewhere* elsewhere(const Trace& trace) { return dynamic_cast<const MapsElsewhere*>(&trace.source()); }

const MapsElsewhere* elsewhere(const HeadOf& head, const std::optional<HeadOf>& minus) {
  const MapsElsewhere* const there = elsewhere(*head.trace);
  if (there == nullptr || (minus && !there->holds(*minus->trace))) return nullptr;
  return there;
}

}  // namespace foxscope
