// Strips of whole rows in memory, each entry a number of its own: what passes over entries read that have no kernel
// which makes them on the way. Private to kernels/cuda.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/status.h"

namespace foxscope::kernels::cuda::maps {

/// Numbers of a block of 64 rows x 64 keys, and rows that a warp writes alone.
constexpr int kBlockNumbers = kTileKeys * kTileKeys;
constexpr int kGroupOfRows = 16;

/// Where a strip of a linear mixer lies: in blocks of 64 rows x 64 keys, those of the same rows one after the other.
struct StripExtent {
  std::int64_t row_blocks = 0;
  std::int64_t tiles = 0;  ///< blocks along the keys

  StripExtent(std::int64_t row_begin, std::int64_t row_end)
      : row_blocks((row_end + kTileKeys - 1) / kTileKeys - row_begin / kTileKeys),
        tiles((row_end + kTileKeys - 1) / kTileKeys) {}

  [[nodiscard]] std::int64_t entries() const { return row_blocks * tiles * kBlockNumbers; }
  /// Bytes of MixingStrip::written.
  [[nodiscard]] std::int64_t groups() const { return row_blocks * (kTileKeys / kGroupOfRows) * tiles; }
  [[nodiscard]] std::int64_t bytes() const { return entries() * 4 + groups(); }
};

/// Cuts rows into strips of at most so many bytes, which have as many rows as fit: the text's first rows have few keys.
/// A strip has 256 rows at least.
struct StripPlan {
  std::int64_t row_end = 0;  ///< of all
  std::int64_t budget = 0;   ///< bytes of a strip

  StripPlan(std::int64_t end, std::int64_t bytes) : row_end(end), budget(bytes) {}

  /// Where the strip ends that begins at a row.
  [[nodiscard]] std::int64_t end_of(std::int64_t begin) const {
    constexpr std::int64_t kStep = 256;
    std::int64_t end = (begin / kStep + 1) * kStep;
    while (end < row_end && StripExtent(begin, end + kStep).bytes() <= budget) end += kStep;
    return std::min(end, row_end);
  }
  /// Bytes of the largest strip.
  [[nodiscard]] std::int64_t bytes(std::int64_t begin) const {
    std::int64_t most = 0;
    for (std::int64_t end = begin; begin < row_end; begin = end) {
      end = end_of(begin);
      most = std::max(most, StripExtent(begin, end).bytes());
    }
    return most;
  }
};

/// Rows [row_begin, row_end) of one head. Nothing is promised of keys after a row.
struct EntryStrip {
  const float* entries = nullptr;
  /// [rows / 16, tiles] 0 where 16 rows of a block were not written, and are 0; null: all were.
  const std::uint8_t* written = nullptr;
  std::int64_t stride = 0;  ///< from row to row; 0: entries lie as StripExtent says
  int tiles = 0;
  int row_begin = 0, row_end = 0;

  [[nodiscard]] __device__ __forceinline__ std::int64_t index(int row, int key) const {
    if (stride != 0) return (row - row_begin) * stride + key;
    const std::int64_t block = std::int64_t{row / kTileKeys - row_begin / kTileKeys} * tiles + key / kTileKeys;
    return block * kBlockNumbers + row % kTileKeys * kTileKeys + key % kTileKeys;
  }
  /// Flags of 16 rows, by tile.
  [[nodiscard]] __device__ __forceinline__ const std::uint8_t* flags(int row) const {
    constexpr int kGroups = kTileKeys / kGroupOfRows;
    return written + std::int64_t{row / kGroupOfRows - row_begin / kTileKeys * kGroups} * tiles;
  }
  [[nodiscard]] __device__ __forceinline__ float at(int row, int key) const {
    const float entry = entries[index(row, key)];
    return written == nullptr || flags(row)[key / kTileKeys] != 0 ? entry : 0.0F;
  }
};

/// The sizes of a row's entries.
struct RowSize {
  double first = 0;   ///< of key 0
  double beside = 0;  ///< sum over all others
};

/// Sums the rows of a strip that lies in blocks. @param sizes  [row_end - row_begin]
Status sum_strip_rows(const EntryStrip& strip, RowSize* sizes, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
