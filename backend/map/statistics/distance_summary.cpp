#include "backend/map/statistics/distance_summary.h"

#include "backend/map/maps_elsewhere.h"
#include "backend/map/statistics/distance_bins.h"

namespace foxscope {

DistanceSummary distance_summary(const AttentionSpread& spread, bool with_sketch) {
  return {binned(spread.distance.mass), binned(spread.distance_without_first.mass),
          with_sketch ? sketch(spread.distance) : ProfileSketch()};
}

DistanceSummary distance_summary(const HeadOf& head, const AttentionSpread& spread, SpreadOf which, bool with_sketch) {
  const auto* const there = spread.distance.mass.empty() ? elsewhere(head) : nullptr;
  return there != nullptr ? there->distances(head, which) : distance_summary(spread, with_sketch);
}

}  // namespace foxscope
