#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/base/job.h"
#include "backend/map/map.h"

namespace foxscope {

/// The tolerance of adaptive computation pruning in its paper: the share of a row's attention that is given up.
inline constexpr double kPruningTolerance = 4.5399929762484854e-5;  // exp(-10)

/// The entries of a head that adaptive computation pruning skips (Lin, Obando-Ceron, He and Courville, "Adaptive
/// Computation Pruning for the Forgetting Transformer", 2025).
struct PruningBound {
  double largest_logit = 0;              ///< U >= |S_ij|: the largest |q_i| times the largest |k_j|, scaled
  double threshold = 0;                  ///< of c_i - c_j, nats: -(2 U + log L) + log tolerance
  std::vector<std::int64_t> first_kept;  ///< [L] of each query the first key that is not skipped
  std::int64_t entries = 0;              ///< that there are: keys up to their query, and inside the window
  std::int64_t skipped = 0;              ///< of them
  [[nodiscard]] double share() const { return static_cast<double>(skipped) / static_cast<double>(entries); }
};

/// Entry (i, j) is skipped where c_i - c_j < threshold. All that are skipped together hold at most `tolerance` of a
/// row: of at most L keys each has a weight of at most exp(U + threshold), and the query's own has at least exp(-U).
/// The sum c never rises, so each row has one first key, which never falls from row to row. The kernels skip whole
/// blocks, so a little less; with the row's running normaliser the CPU's skips a little more (docs/kernels.md).
/// @param tolerance  above 0 and below 1
/// @returns nothing if the job was stopped
/// @throws UsageError for a tolerance out of range; Error for gates, queries or keys that were not kept, and for a
/// layer
///         without softmax attention
std::optional<PruningBound> pruning_bound(const HeadOf& head, double tolerance, const Job& job);

}  // namespace foxscope
