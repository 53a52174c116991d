#pragma once

#include <cstdint>

#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda {

enum class ForgetValue { forget, log_forget };

/// F = exp(c_i - c_j), or its logarithm, of many heads on one rectangle by the closed form: c never increases, so
/// that below the diagonal a bin has its largest entry at its first row and last column, its smallest at its last row
/// and first column, and its mean is a product of a sum over rows and one over columns. Bins and absent entries as in
/// PooledMap. Costs O(rows + columns + pixels) a head. By distance a bin's extremes are those of its nearest and its
/// farthest key over its rows, O(rows x columns of pixels), and means are summed entry by entry.
struct ForgetMap {
  std::int64_t heads = 0;
  std::int64_t length = 0;
  std::int64_t window = 0;                      ///< keys that a query sees; 0: all before it
  const double* cumulative_log_gate = nullptr;  ///< [heads, L] nats, non-increasing, in memory of the device
  const double* minus = nullptr;                ///< [heads, L] subtracted, for means; null: nothing
  ForgetValue value = ForgetValue::forget;
  MapReduction reduction = MapReduction::max;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t column_begin = 0, column_end = 0;
  std::int64_t pixel_rows = 0, pixel_columns = 0;
  const int* distance_edges = nullptr;  ///< as PooledMap's; null: columns are keys
  float* pixels = nullptr;              ///< [heads, pixel_rows, pixel_columns]
  void* workspace = nullptr;  ///< [forget_map_workspace_bytes], aligned to 16 bytes; may be null where that is 0
};

/// 0 but for means and maps by distance.
std::size_t forget_map_workspace_bytes(const ForgetMap& map);

/// Asynchronous on the stream; differences and sums in float64.
/// @returns invalid_argument for sizes that do not fit each other or a subtrahend without a mean; unsupported for more
///          than 65,535 rows of pixels; unavailable without a device; failed where a launch fails
Status forget_map(const ForgetMap& map, Stream stream);

}  // namespace foxscope::kernels::cuda
