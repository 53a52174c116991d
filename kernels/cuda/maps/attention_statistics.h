#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda {

/// Row log-normalisers of a head without its gate, log sum over j of exp(q_i.k_j scale), in one pass of tiles; sums are
/// float64. Asynchronous. The head's gate, normaliser and tables are not looked at.
/// @param rows  [row_begin, row_end) are filled of [L] nats
Status log_normalizer_without_gate(const MapHead& head, std::int64_t row_begin, std::int64_t row_end, float* rows,
                                   Stream stream);

/// Rows up to which AttentionSums counts those that have mass beside key 0.
inline constexpr std::int64_t kFewRows = 32;
inline constexpr std::int64_t kManyRows = 256;

/// Sums over all rows i and the keys j that they see. Every number is float64 and the same in every run; NaN where a
/// part of it is not a finite number.
struct AttentionSums {
  double entropy = 0;               ///< - sum of A log A, nats
  double on_first = 0;              ///< sum of A_i0
  double log_decay = 0;             ///< sum of A_ij (c_i - c_j), nats
  double rows_beside = 0;           ///< how many rows but row 0 have mass beside key 0
  double few_rows_beside = 0;       ///< how many of the rows 1 to kFewRows do
  double many_rows_beside = 0;      ///< how many of the rows 1 to kManyRows do
  double square_without_first = 0;  ///< sum over j > 0 of (A_ij / (1 - A_i0))^2
  double on_repeats = 0;            ///< sum of A_ij over 0 < j < i with token[j - 1] = token[i]
};

/// Statistics of several heads of one layer, whose lengths, windows, dimensions, dtypes and scales are the same, and
/// which all have a gate or none.
struct AttentionStatistics {
  static constexpr int kMostHeads = 32;

  const MapHead* heads = nullptr;       ///< [count] in memory of the host; their entries are attention
  int count = 0;                        ///< 1 to kMostHeads
  const float* sinks = nullptr;         ///< [count] logits of sinks, in memory of the host; null: heads have none
  const std::int32_t* token = nullptr;  ///< [L] that each position reads, 0 and above; null: nothing is a repeat
  AttentionSums* sums = nullptr;        ///< [count]
  double* mass = nullptr;               ///< [count, L] sum of A at each distance i - j
  /// [count, L] the same without key 0, each row but row 0 divided by what it has left.
  double* mass_without_first = nullptr;
  void* workspace = nullptr;  ///< [attention_statistics_workspace_bytes], aligned to 16 bytes
};

std::size_t attention_statistics_workspace_bytes(std::int64_t length, int count);

/// One pass of tiles, after one over key 0. Rows that hold more than 15/16 on key 0 are summed beforehand, because what
/// is left of them is then too small to be known as 1 minus that share. Where there is a gate, tiles whose every entry
/// is below 2^-40 of its row are left out. Asynchronous; all other pointers are to memory of the device.
/// @returns invalid_argument for heads that differ and what pooled_map refuses of a head; unsupported for tiles that do
///          not fit into the device's shared memory
Status attention_statistics(const AttentionStatistics& statistics, Stream stream);

}  // namespace foxscope::kernels::cuda
