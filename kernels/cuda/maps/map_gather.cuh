// Lines of entries that a warp gathers into pixels. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/maps/map_pixels.cuh"
#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda::maps {

/// The pixels of a warp with 8 `Lines` rows, of which a thread has `Lines`, 8 apart; four lanes share a line.
template <PoolMode Mode, int Lines>
struct WarpPixels {
  const PoolParameters& p;
  WarpRows rows;      ///< those of the warp that were asked for
  int row = 0;        ///< of the thread's line 0
  int first_bin = 0;  ///< of the warp's rows
  int last_bin = 0;
  float* stage = nullptr;  ///< [8 Lines][kStageStride] of the warp

  static constexpr int kStageStride = kTileKeys + 1;

  __device__ __forceinline__ explicit WarpPixels(const PoolParameters& parameters) : p(parameters) {}

  [[nodiscard]] __device__ __forceinline__ MapReduction reduction() const {
    if constexpr (Mode == PoolMode::peaks) return MapReduction::max;
    if constexpr (Mode == PoolMode::sums) return MapReduction::mean;
    return p.reduction;
  }

  /// Begins the bins, after rows are set.
  __device__ __forceinline__ void start_bins() {
    first_bin = p.row_bin[min(rows.begin, p.row_end - 1) - p.row_begin];
    last_bin = p.row_bin[min(max(rows.begin, rows.end - 1), p.row_end - 1) - p.row_begin];
  }

  /// Adds a thread's lines, each over some keys of one column of pixels; those outside `rows` count for nothing.
  __device__ __forceinline__ void add_lines(float (&line)[Lines], int column) const {
    const float none = identity(reduction());
#pragma unroll
    for (int n = 0; n < Lines; ++n) {
      if (row + 8 * n < rows.begin || row + 8 * n >= rows.end) line[n] = none;
    }
    if (first_bin == last_bin) {
      reduce_warp(line, first_bin, column);
    } else if (last_bin - first_bin < 4) {
      for (int bin = first_bin; bin <= last_bin; ++bin) {
        const int from = p.row_edge[bin];
        const int to = p.row_edge[bin + 1];
        float part[Lines];
#pragma unroll
        for (int n = 0; n < Lines; ++n) part[n] = row + 8 * n >= from && row + 8 * n < to ? line[n] : none;
        reduce_warp(part, bin, column);
      }
    } else {
      reduce_lines(line, column);
    }
  }

  /// Sums a warp whose lines all belong to one pixel.
  __device__ __forceinline__ void reduce_warp(const float (&line)[Lines], int bin, int column) const {
    const MapReduction r = reduction();
    float value = combine(line[0], line[1], r);
    if constexpr (Lines == 4) value = combine(value, combine(line[2], line[3], r), r);
    const std::int64_t pixel = std::int64_t{bin} * p.pixel_columns + column;
    const bool leads = threadIdx.x % 32 == 0;
    if (r == MapReduction::mean) {
      for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
      if (leads) add_to_mean(p, pixel, value);
    } else {
      const unsigned code = __reduce_max_sync(0xffffffffU, encode(value, r));
      if (leads) atomicMax(p.extreme + pixel, code);
    }
  }

  /// Each line belongs to a pixel of its own, or nearly so.
  __device__ __forceinline__ void reduce_lines(float (&line)[Lines], int column) const {
    const int quarter = static_cast<int>(threadIdx.x) % 4;
    float mine = 0;
#pragma unroll
    for (int n = 0; n < Lines; ++n) {
      for (int lanes = 1; lanes < 4; lanes *= 2) {
        line[n] = combine(line[n], __shfl_xor_sync(0xffffffffU, line[n], lanes), reduction());
      }
      if (quarter == n) mine = line[n];
    }
    const int at = row + 8 * quarter;
    if (quarter < Lines && at >= rows.begin && at < rows.end) {
      put(p, std::int64_t{p.row_bin[at - p.row_begin]} * p.pixel_columns + column, mine);
    }
  }

  /// Gathers columns [begin, end) of a tile that the warp has laid out in `stage`, groups of four rows by lanes.
  /// @param first_row  the warp's first line
  __device__ __forceinline__ void gather_stage(int first_row, int first_key, int begin, int end) const {
    const int column = p.column_bin[first_key + begin - p.column_begin];
    const int columns = p.column_bin[first_key + end - 1 - p.column_begin] - column + 1;
    for (int item = static_cast<int>(threadIdx.x) % 32; item < columns * 2 * Lines; item += 32) {
      const int bin = column + item % columns;
      const int from = max(begin, p.column_edge[bin] - first_key);
      const int to = min(end, p.column_edge[bin + 1] - first_key);
      gather_rows(first_row, item / columns * 4, bin, [&](int /*query*/) { return Keys{from, to}; });
    }
  }

  /// The same of columns of pixels that are bins of distances: diagonals of the tile.
  __device__ __forceinline__ void gather_diagonals(int first_row, int first_key, int begin, int end) const {
    const int low = max(rows.begin - (first_key + end - 1) + 1, p.distance_begin);
    const int high = min(rows.end - 1 - (first_key + begin) + 1, p.distance_end - 1);
    if (low > high) return;
    const int column = p.column_bin[low - p.distance_begin];
    const int columns = p.column_bin[high - p.distance_begin] - column + 1;
    for (int item = static_cast<int>(threadIdx.x) % 32; item < columns * 2 * Lines; item += 32) {
      gather_diagonal(first_row, item / columns * 4, first_key, begin, end, column + item % columns);
    }
  }

  /// Four rows of a tile, of each the keys [begin, end) whose distances are in one bin.
  __device__ __forceinline__ void gather_diagonal(int first_row, int first, int first_key, int begin, int end,
                                                  int column) const {
    const int near = p.column_edge[column];
    const int far = p.column_edge[column + 1];
    // i - j + 1 in [near, far).
    gather_rows(first_row, first, column, [&](int query) {
      return Keys{max(begin, query - far + 2 - first_key), min(end, query - near + 2 - first_key)};
    });
  }

  /// Keys of a row, from the tile's first one.
  struct Keys {
    int from;
    int to;
  };

  /// Four rows of a tile, of each the keys that of(query) names, for one column of pixels.
  template <class Of>
  __device__ __forceinline__ void gather_rows(int first_row, int first, int column, const Of& of) const {
    int bin = -1;
    float value = identity(reduction());
    for (int n = first; n < first + 4 && first_row + n < rows.end; ++n) {
      const int query = first_row + n;
      if (query < rows.begin) continue;
      const Keys keys = of(query);
      if (keys.from >= keys.to) continue;
      const int next = p.row_bin[query - p.row_begin];
      if (bin >= 0 && next != bin) {
        put(p, std::int64_t{bin} * p.pixel_columns + column, value);
        value = identity(reduction());
      }
      bin = next;
      for (int key = keys.from; key < keys.to; ++key)
        value = combine(value, stage[n * kStageStride + key], reduction());
    }
    if (bin >= 0) put(p, std::int64_t{bin} * p.pixel_columns + column, value);
  }
};

}  // namespace foxscope::kernels::cuda::maps
