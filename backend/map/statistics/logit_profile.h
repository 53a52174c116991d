#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/map/map.h"
#include "backend/map/statistics/distance_bins.h"

namespace foxscope {

/// The two terms of a logit S_ij + d_ij, averaged over all pairs of a bin of distances i - j; NaN where there is none.
struct LogitMeans {
  DistanceBin distance;
  double content = 0;  ///< mean of S_ij = q_i.k_j / sqrt(d), nats
  double decay = 0;    ///< mean of d_ij = c_i - c_j, nats
};

/// How logits fall with distance, and which of their terms makes them: every pair inside the window counts the same,
/// key 0 left out. With K_b(i) the sum of the keys at the distances of bin b before i,
///   mean content = sum_i q_i . K_b(i) / (sqrt(d) pairs),
/// so that a bin costs O(L d) and no entry is computed. On the trace's GPU where it has one.
/// @returns nothing if the job was stopped
/// @throws Error for gates, queries or keys that were not kept
std::optional<std::vector<LogitMeans>> logit_profile(const HeadOf& head, const Job& job);

}  // namespace foxscope
