#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda {

/// Numbers of one row i of attention, float64. A' is A without key 0, the row divided by what that leaves; it is 0 in
/// row 0, and in rows that have nothing beside key 0.
struct SampledRow {
  static constexpr int kMostBins = 32;

  double entropy = 0;             ///< - sum over j of A log A, nats
  double on_first = 0;            ///< A_i0
  double on_self = 0;             ///< A_ii
  double log_decay = 0;           ///< sum over j of A_ij (c_i - c_j), nats
  double beside = 0;              ///< sum of A_ij over j > 0
  double square = 0;              ///< sum of A_ij^2 over j > 0
  double on_repeats = 0;          ///< sum of A_ij over 0 < j < i with token[j - 1] = token[i]
  double toward[2] = {};          ///< sum over d of A'_(i, i-d) half[d] / (L - 1 - d) of either half
  double mass[kMostBins] = {};    ///< sum of A_ij over distances 0, 1, 2-3, 4-7, ...
  double others[kMostBins] = {};  ///< the same without key 0
};

/// Single rows of several heads of one layer, alike as those of AttentionStatistics.
struct SampledRows {
  static constexpr int kMostHeads = 32;

  /// [count] in memory of the host; their entries are attention, and their tables are not looked at
  const MapHead* heads = nullptr;
  int count = 0;  ///< 1 to kMostHeads
  /// [count] in memory of the host: linear mixers, whose attention is |M_ij| / sum over j of |M_ij|; of `heads` then
  /// length, window and gate alone count. Null: heads are of softmax.
  const PreparedMixer* mixers = nullptr;
  const std::int32_t* token = nullptr;      ///< [L] as those of AttentionStatistics
  const std::int32_t* positions = nullptr;  ///< [rows] which rows
  const double* stands_for = nullptr;       ///< [rows] rows of the text that a stratum of two has, N
  int rows = 0;                             ///< even; rows 2 h and 2 h + 1 are of one stratum
  SampledRow* numbers = nullptr;            ///< [count, rows]
  double* mass = nullptr;                   ///< [count, L] sum over the rows of N / 2 A_(i, i-d)
  double* half = nullptr;      ///< [count, 2, L] sum of N A'_(i, i-d) over the even rows, over the odd ones
  double* received = nullptr;  ///< [count, L] sum of N / 2 A_ij over the rows, by key j; null: not wanted
  void* workspace = nullptr;   ///< [sampled_rows_workspace_bytes], aligned to 16 bytes
};

/// @param mixing  heads are linear mixers
std::size_t sampled_rows_workspace_bytes(std::int64_t length, int rows, int count, bool mixing);

/// Every entry of the rows, kept as float32 logarithms, and sums over them; the same in every run. Asynchronous; all
/// pointers but `heads` are to memory of the device.
/// @returns as attention_statistics
Status sampled_rows(const SampledRows& rows, Stream stream);

}  // namespace foxscope::kernels::cuda
