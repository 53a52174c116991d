#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/map/head_entries.h"
#include "backend/map/statistics/head_statistics.h"

namespace foxscope {

/// The spread of attention, on the trace's GPU where it has one (DeviceSpreads), by one pass of tiles; heads that park
/// more than 15/16 of a row on key 0 take a second look at those rows, because what remains is then too small to be
/// known as 1 minus that share. Where there is a gate, tiles whose every entry is below 2^-40 of its row are left out.
/// @param entries  of Quantity::attention, its gate or its content perhaps left out
/// @returns nothing if the job was stopped
std::optional<AttentionSpread> attention_spread(HeadEntries& entries, const Job& job);

/// The same on the CPU.
/// @param repeats  how many rows see a token that followed an earlier one like theirs (rows_with_repeats)
std::optional<AttentionSpread> attention_spread_on_cpu(HeadEntries& entries, std::int64_t repeats, const Job& job);

/// Sets what is known of squares and repeats from their sums over rows; spread.rows_without_first is set.
void set_means_of_rows(double square_without_first, double on_repeats, std::int64_t repeats, AttentionSpread& spread);

/// Share of a row that the head's sink takes, mean over rows.
double mean_sink_share(const HeadEntries& entries);

/// Means over rows from sums over them, with the distances that hold half and nine tenths.
/// @param mass  [L] sum at distance 0, 1, ...
DistanceProfile distance_profile(std::vector<double> mass, std::int64_t rows, double on_keys = 1);

}  // namespace foxscope
