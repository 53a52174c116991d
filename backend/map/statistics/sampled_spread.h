#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/map/head_entries.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/row_sample.h"

namespace foxscope {

/// Numbers of each sampled row i of one head, and sums over these rows at each distance. A' is A without key 0, the row
/// renormalised; it is 0 in row 0, and in rows that have nothing beside key 0.
struct SampledRows {
  std::vector<double> entropy;            ///< [rows] nats
  std::vector<double> on_first, on_self;  ///< A_i0 and A_ii
  std::vector<double> log_decay;          ///< sum over j of A_ij (c_i - c_j), nats
  std::vector<double> beside;             ///< sum of A_ij over j > 0
  std::vector<double> square;             ///< sum of A'_ij^2
  std::vector<double> on_repeats;         ///< sum of A_ij over the keys 0 < j < i with x_(j-1) = x_i
  std::vector<double> within;             ///< [rows, bins] sum of A_ij over distances below the end of each bin
  std::vector<double> within_beside;      ///< [rows, bins] likewise of A'
  std::vector<double> mass;               ///< [L] estimate of the sum over all rows of A_(i, i-d)
  /// [L] likewise of A', once from the first row of each stratum and once from the second.
  std::vector<double> half[2];
  /// [rows] sum over d of A'_(i, i-d) half[n][d] / (L - 1 - d), within the window.
  std::vector<double> toward[2];
  std::vector<double> received;  ///< [L] estimate of the sum over all rows of A_ij, by key j
};

/// Whether a row has attention beside key 0.
inline bool has_more(std::int64_t row, double beside) { return row > 0 && !(beside <= 0); }  // NaN counts
/// The factor from A to A': 1 / beside, or 0.
inline double weight_of(std::int64_t row, double beside) { return has_more(row, beside) ? 1 / beside : 0.0; }

/// How far back of each row the nearest token is that followed an earlier one like the row's, tokens; 0: there is none.
/// @param token  [L] that each position reads; may be empty
/// @returns [L]; empty where tokens are not known
std::vector<std::int64_t> repeat_distances(std::span<const std::int32_t> token);
/// The rows that see such a token.
/// @param distances  repeat_distances
/// @returns [L] 1 or 0; empty where tokens are not known
std::vector<std::uint8_t> rows_with_repeats(std::span<const std::int64_t> distances, std::int64_t window);

/// Numbers of sampled rows, computed on the CPU.
/// @param entries  of Quantity::attention, its gate or its content perhaps left out
/// @returns nothing if the job was stopped
std::optional<SampledRows> measure_sampled_rows(HeadEntries& entries, const RowSample& sample, const Job& job);

/// The spread of attention from sampled rows, with standard errors. Means are stratified ones; those without key 0 and
/// those over repeats are ratios. d50 and d90 have the error of Woodruff (J. Am. Stat. Assoc. 47, 1952): half the
/// distance between where the mass reaches their share less its error, and the share and its error. The score of
/// positional heads takes the squares of sums by distance from products of two estimates, each of half the rows, so
/// that their noise has mean 0.
/// @param entries     of Quantity::attention, its gate or its content perhaps left out
/// @param sees        rows_with_repeats
/// @param rows        numbers of the rows, whoever computed them
/// @param statistics  whose spread, scores of labels and errors are set
void estimate_spread(const HeadEntries& entries, const RowSample& sample, std::span<const std::uint8_t> sees,
                     SampledRows rows, HeadStatistics& statistics);

}  // namespace foxscope
