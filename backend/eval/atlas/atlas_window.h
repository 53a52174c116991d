#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/atlas/atlas_sums.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// A window that a model has read.
struct AtlasWindow {
  std::int64_t number = 0;                ///< among all windows
  std::int32_t document = 0;              ///< that it is part of
  std::uint64_t key = 0;                  ///< its random numbers, from the seed and what it says (window_key)
  std::vector<BoundaryClassSet> classes;  ///< [L] of its tokens; empty: it has no text
};

/// A number that seed and tokens decide, wherever a window stands among others.
std::uint64_t window_key(std::uint64_t seed, std::span<const std::int32_t> ids);

/// Names and units of the numbers of a head: those of gate_numbers but the decay time, which follows from their mean.
struct AtlasNumber {
  std::string name;
  std::string unit;
};
const std::vector<AtlasNumber>& atlas_numbers();

/// Adds a window of two tokens or more to the sums: of each head log f = c_p - c_(p-1) at the positions p >= 1, by what
/// they read, resets (f < 1/2) by the classes of what they read, and the same for kShifts circular shifts of the gate
/// along these positions; the strongest reset; a position drawn at random; the numbers of gate_statistics; and products
/// of log f for all pairs of heads.
/// @param trace  of the window, with gates and tokens
/// @returns false if the job was stopped; then the sums are of no use
/// @throws Error for a gate that is not a number, naming layer and head
bool add_window(const Trace& trace, const AtlasWindow& window, const Job& job, AtlasSums& sums);

}  // namespace foxscope
