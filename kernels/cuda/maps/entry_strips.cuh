// Strips of whole rows in memory, each entry a number of its own: what passes over entries read that have no kernel
// which makes them on the way. Private to kernels/cuda.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/status.h"

namespace foxscope::kernels::cuda::maps {

/// Numbers between rows of a strip that ends at a row.
inline std::int64_t strip_stride(std::int64_t row_end) { return (row_end + kTileKeys - 1) / kTileKeys * kTileKeys; }

/// Cuts rows into strips of at most so many bytes, which have as many rows as fit: the text's first rows have few keys.
/// A strip has 256 rows at least.
struct StripPlan {
  std::int64_t row_end = 0;  ///< of all
  std::int64_t budget = 0;   ///< numbers of a strip

  StripPlan(std::int64_t end, std::int64_t bytes) : row_end(end), budget(bytes / 4) {}

  /// Where the strip ends that begins at a row.
  [[nodiscard]] std::int64_t end_of(std::int64_t begin) const {
    constexpr std::int64_t kStep = 256;
    std::int64_t end = (begin / kStep + 1) * kStep;
    while (end < row_end && (end + kStep - begin) * strip_stride(end + kStep) <= budget) end += kStep;
    return std::min(end, row_end);
  }
  /// Bytes of the largest strip.
  [[nodiscard]] std::int64_t bytes(std::int64_t begin) const {
    std::int64_t most = 0;
    for (std::int64_t end = begin; begin < row_end; begin = end) {
      end = end_of(begin);
      most = std::max(most, (end - begin) * strip_stride(end));
    }
    return most * 4;
  }
};

/// Rows [row_begin, row_end) of one head.
struct EntryStrip {
  const float* entries = nullptr;  ///< key j of row i at (i - row_begin) stride + j; nothing is promised after the row
  std::int64_t stride = 0;
  int row_begin = 0, row_end = 0;

  [[nodiscard]] __device__ __forceinline__ const float* row(int i) const { return entries + (i - row_begin) * stride; }
};

/// The sizes of a row's entries.
struct RowSize {
  double first = 0;   ///< of key 0
  double beside = 0;  ///< sum over all others
};

/// Sums the rows of a strip. @param sizes  [row_end - row_begin]
Status sum_strip_rows(const EntryStrip& strip, RowSize* sizes, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
