#include "backend/map/statistics/distance_bins.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foxscope {

std::vector<DistanceBin> distance_bins(std::int64_t length) {
  std::vector<DistanceBin> bins;
  for (std::int64_t from = 0; from < length; from = std::max<std::int64_t>(1, 2 * from)) {
    bins.push_back({from, std::min(length, from == 0 ? 1 : 2 * from)});
  }
  return bins;
}

double octaves(const DistanceBin& bin) {
  return std::log2(static_cast<double>(1 + bin.to) / static_cast<double>(1 + bin.from));
}

std::size_t drawn_bins(std::span<const DistanceBin> bins) {
  constexpr double kNarrowest = 0.5;
  return bins.empty() || octaves(bins.back()) >= kNarrowest ? bins.size() : bins.size() - 1;
}

std::vector<double> binned(std::span<const double> mass) {
  std::vector<double> sums;
  for (const DistanceBin& bin : distance_bins(static_cast<std::int64_t>(mass.size()))) {
    sums.push_back(std::accumulate(mass.begin() + bin.from, mass.begin() + bin.to, 0.0));
  }
  return sums;
}

}  // namespace foxscope
