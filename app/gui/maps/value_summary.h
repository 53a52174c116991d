#pragma once

#include <memory>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::gui {

/// Counts of values in equal steps between two ends.
struct Histogram {
  double lower = 0;
  double upper = 0;
  std::vector<int> counts;
};

/// The summary of a picture's values for the colour bar, from an even sample where there are many.
struct ValueSummary {
  bool empty = true;  ///< no entry exists
  double lowest = 0;  ///< of all values, not of the sample alone
  double highest = 0;
  double percentile0_1 = 0;
  double percentile99_9 = 0;
  Histogram linear;
  /// Histogram of log10 of the values above zero, in the upper twelve decades; without counts where there are none.
  Histogram logarithmic;
};

ValueSummary summaryOf(const std::vector<std::shared_ptr<const Image>>& images);

}  // namespace foxscope::gui
