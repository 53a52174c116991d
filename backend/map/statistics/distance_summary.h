#pragma once

#include <vector>

#include "backend/map/statistics/head_match.h"
#include "backend/map/statistics/head_statistics.h"

namespace foxscope {

/// The numbers that describe attention mass by distance. The mass itself has as many numbers as a text has tokens.
struct DistanceSummary {
  std::vector<double> bins;                ///< mass of each of distance_bins
  std::vector<double> bins_without_first;  ///< of DistanceProfile distance_without_first
  ProfileSketch sketch;                    ///< of attention with key 0
};

/// The attention that a spread is of: the head's own, or that of a split (DecaySplit).
enum class SpreadOf { attention, without_gate, without_content };

/// @param with_sketch  without, the sketch is empty
DistanceSummary distance_summary(const AttentionSpread& spread, bool with_sketch = true);
/// The same of a head's spread, wherever its run lies: from another machine it comes without the mass (MapsElsewhere).
DistanceSummary distance_summary(const HeadOf& head, const AttentionSpread& spread,
                                 SpreadOf which = SpreadOf::attention, bool with_sketch = true);

}  // namespace foxscope
