#include "backend/map/maps_elsewhere.h"

namespace foxscope {

const MapsElsewhere* elsewhere(const HeadOf& head, const std::optional<HeadOf>& minus) {
  const auto* const there = dynamic_cast<const MapsElsewhere*>(&head.trace->source());
  if (there == nullptr || (minus && !there->holds(*minus->trace))) return nullptr;
  return there;
}

}  // namespace foxscope
