#pragma once

#include <cstddef>
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

/// log2((1 + to) / (1 + from)): how wide a bin is on a logarithmic axis of 1 + distance. 1, 0.585, 0.737, ... up to 1.
double octaves(const DistanceBin& bin);

/// How many of the bins a curve against distance is drawn of: all but a last one that the text's end leaves narrower
/// than half an octave, in which few rows have keys.
std::size_t drawn_bins(std::span<const DistanceBin> bins);

/// Mass of each bin.
/// @param mass  [L] at distance 0, 1, ...
std::vector<double> binned(std::span<const double> mass);

}  // namespace foxscope
