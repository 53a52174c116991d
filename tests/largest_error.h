#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope::test {

/// The larger of the errors so far and one more: infinity once an error is NaN. std::max(so_far, NaN) is `so_far`, so
/// that a result that is NaN would pass as no error.
inline double largest_error(double so_far, double error) {
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(so_far, std::abs(error));
}

}  // namespace foxscope::test
