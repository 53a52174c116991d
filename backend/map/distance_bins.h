#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foxscope {

/// Distances [from, to), tokens.
struct DistanceBin {
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool operator==(const DistanceBin&) const = default;
};

/// Bins over the distances 0 to length - 1: 0 alone, then bins that double (1, 2-3, 4-7...), the last cut off.
std::vector<DistanceBin> distance_bins(std::int64_t length);

/// Mass of each bin.
/// @param mass  [L] at distance 0, 1, ...
std::vector<double> binned(std::span<const double> mass);

}  // namespace foxscope
