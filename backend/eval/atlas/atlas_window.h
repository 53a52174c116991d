#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/atlas/atlas_numbers.h"
#include "backend/eval/atlas/atlas_sums.h"
#include "backend/eval/atlas/device_gates.h"
#include "backend/eval/atlas/head_vectors.h"
#include "backend/map/map.h"

namespace foxscope {

/// A window that a model has read.
struct AtlasWindow {
  std::int64_t number = 0;                ///< among all windows
  std::int32_t document = 0;              ///< that it is part of
  std::uint64_t key = 0;                  ///< its random numbers, from the seed and what it says (window_key)
  std::vector<BoundaryClassSet> classes;  ///< [L] of its tokens; empty: it has no text
  /// With gates and tokens; with rows of attention also queries, keys, row normalisers and losses.
  RunOnDevice run;
  RunOnDevice first;  ///< the same window as the first model read it; none: products with it are not wanted
};

/// Memory that the work on windows leaves to the next ones: taking it anew costs as much as filling it.
struct WindowMemory {
  std::vector<std::vector<double>> log_gates;  ///< [heads, positions] of each window
  HeadVectors own;                             ///< of the model's heads
  HeadVectors first;                           ///< of those that it is compared with
};

/// A number that seed and tokens decide, wherever a window stands among others.
std::uint64_t window_key(std::uint64_t seed, std::span<const std::int32_t> ids);

/// Rows that are sampled where all are measured.
inline constexpr std::int64_t kDefaultRows = 64;

/// Adds windows of one length, two tokens or more, to the sums: of each head log f = c_p - c_(p-1) at the positions p
/// >= 1, by what they read, resets (f < 1/2) by the classes of what they read, and the same for kShifts circular shifts
/// of the gate along these positions; the strongest reset; a position drawn at random; the statistics of measure_head;
/// and products of log f for all pairs of heads. With rows of attention, of the rows that the window's random numbers
/// draw (sample_rows): what keys receive, by token; the mass of each row in each bin of distance, and its products; the
/// row with most mass half the window back or farther, where half is the largest power of 2 that is no more; and the
/// row in which the mass beyond kLocalTokens, times what the loss is below that where the window first had the same
/// token to predict, is largest.
/// @param numbers  of the model, as many as the shape of the sums says
/// @param gates    the GPU that makes the sums of gates, and keeps most of them (DeviceGates::take); null: processors
/// do
/// @param memory   of any windows before
/// @returns false if the job was stopped; then the sums are of no use
/// @throws Error for a gate, attention or a loss that is not a number, naming layer and head
bool add_windows(std::span<const AtlasWindow> windows, const AtlasNumbers& numbers, const Job& job, DeviceGates* gates,
                 WindowMemory& memory, AtlasSums& sums);

}  // namespace foxscope
