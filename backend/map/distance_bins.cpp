#include "backend/map/distance_bins.h"

#include <algorithm>
#include <numeric>

namespace foxscope {

std::vector<DistanceBin> distance_bins(std::int64_t length) {
  std::vector<DistanceBin> bins;
  for (std::int64_t from = 0; from < length; from = std::max<std::int64_t>(1, 2 * from)) {
    bins.push_back({from, std::min(length, from == 0 ? 1 : 2 * from)});
  }
  return bins;
}

std::vector<double> binned(std::span<const double> mass) {
  std::vector<double> sums;
  for (const DistanceBin& bin : distance_bins(static_cast<std::int64_t>(mass.size()))) {
    sums.push_back(std::accumulate(mass.begin() + bin.from, mass.begin() + bin.to, 0.0));
  }
  return sums;
}

}  // namespace foxscope
