// Pixels while entries are gathered in them. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda::maps {

/// Sum of a pixel's entries in fixed point, so that it does not depend on the order in which they come:
/// (word[0] + word[1] 2^-34 + word[2] 2^-68) / PoolParameters::sum_scale. A word takes 2^29 entries.
struct PixelSum {
  long long word[3];
};
constexpr double kWordScale = 0x1p34;

/// Values without a fixed point that a pixel's sum has met.
constexpr unsigned kMetNan = 1;
constexpr unsigned kMetInfinity = 2;
constexpr unsigned kMetMinusInfinity = 4;

struct PoolParameters {
  HeadParameters head[2];
  int heads = 1;
  int length = 0;
  int window = 0;
  int row_begin = 0, row_end = 0;
  int column_begin = 0, column_end = 0;
  int key_begin = 0;  ///< of the columns that are not absent
  int pixel_columns = 0;
  int first_tile = 0;
  int tiles_per_item = 0;
  MapValue value = MapValue::attention;
  MapReduction reduction = MapReduction::max;
  bool logarithm = false;    ///< extremes are those of the entries' logarithms: one exponential a pixel
  bool staged = false;       ///< bins have fewer columns than a step, or are of distances
  bool by_distance = false;  ///< columns of pixels are bins of distances i - j + 1
  int distance_begin = 0, distance_end = 0;
  double limit = 0;                  ///< log2 below which tiles are left out, where a head has norms
  const int* row_bin = nullptr;      ///< [rows]
  const int* column_bin = nullptr;   ///< [columns], or [distances]
  const int* row_edge = nullptr;     ///< [pixel_rows + 1]
  const int* column_edge = nullptr;  ///< [pixel_columns + 1]
  unsigned* extreme = nullptr;       ///< [pixels] order-preserving codes, for means kMet...; 0 before the launch
  PixelSum* sum = nullptr;           ///< [pixels] for means; 0 before the launch
  double sum_scale = 1;              ///< power of 2, with which no sum of a pixel's entries reaches 2^63
};

/// The traits of a map that the compiler knows.
enum class PoolMode {
  any,
  peaks,  ///< extremes of attention's logarithm are its largest, and bins have 16 columns and more
  sums,   ///< means of attention, likewise
};

/// Encodes a value so that unsigned numbers have the reduction's order; 0 is below all, NaN above.
__device__ __forceinline__ unsigned encode(float value, MapReduction reduction) {
  if (isnan(value)) return 0xffffffffU;  // which decodes to a NaN
  const unsigned bits = __float_as_uint(value);
  if (reduction == MapReduction::absmax) return (bits << 1) | ((bits >> 31) ^ 1U);
  const unsigned ordered = bits ^ (bits >> 31 != 0 ? 0xffffffffU : 0x80000000U);
  return reduction == MapReduction::max ? ordered : ~ordered;
}

__device__ __forceinline__ float decode(unsigned code, MapReduction reduction) {
  if (reduction == MapReduction::absmax) return __uint_as_float((code >> 1) | ((code & 1U) ^ 1U) << 31);
  const unsigned ordered = reduction == MapReduction::max ? code : ~code;
  return __uint_as_float(ordered ^ (ordered >> 31 != 0 ? 0x80000000U : 0xffffffffU));
}

__device__ __forceinline__ float identity(MapReduction reduction) {
  if (reduction == MapReduction::max) return -INFINITY;
  return reduction == MapReduction::min ? INFINITY : 0.0F;
}

__device__ __forceinline__ float combine(float a, float b, MapReduction reduction) {
  switch (reduction) {
    case MapReduction::max:
      return maximum(a, b);
    case MapReduction::min:
      return minimum(a, b);
    case MapReduction::mean:
      return a + b;
    default: {
      const float high = maximum(a, b);
      const float low = minimum(a, b);
      return high >= -low ? high : low;
    }
  }
}

/// Adds one value to a pixel's sum.
__device__ __forceinline__ void add_to_mean(const PoolParameters& p, std::int64_t pixel, float value) {
  if (!isfinite(value)) {
    atomicOr(p.extreme + pixel, isnan(value) ? kMetNan : value > 0 ? kMetInfinity : kMetMinusInfinity);
    return;
  }
  double rest = static_cast<double>(value) * p.sum_scale;
  for (long long& word : p.sum[pixel].word) {
    const double whole = rint(rest);
    if (whole != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&word),
                static_cast<unsigned long long>(static_cast<long long>(whole)));
    }
    rest = (rest - whole) * kWordScale;
  }
}

__device__ __forceinline__ double sum_of(const PoolParameters& p, std::int64_t pixel) {
  const unsigned met = p.extreme[pixel];
  if (met == kMetInfinity) return INFINITY;
  if (met == kMetMinusInfinity) return -INFINITY;
  if (met != 0) return nan("");
  const long long* word = p.sum[pixel].word;
  const double rest = (static_cast<double>(word[1]) + static_cast<double>(word[2]) / kWordScale) / kWordScale;
  return (static_cast<double>(word[0]) + rest) / p.sum_scale;
}

/// Adds one value to a pixel.
__device__ __forceinline__ void put(const PoolParameters& p, std::int64_t pixel, float value) {
  if (p.reduction == MapReduction::mean) {
    add_to_mean(p, pixel, value);
  } else {
    atomicMax(p.extreme + pixel, encode(value, p.reduction));
  }
}

/// Whether a map's rectangle and its pixels fit each other and the length of its head.
bool sizes_valid(const PooledMap& map);

/// Lays pixels and bins out in a map's workspace, and sets in `p` the rectangle and all pointers. The workspace has
/// pooled_map_workspace_bytes; this function and the next read only the head's length.
Status begin_pixels(const PooledMap& map, PoolParameters& p, cudaStream_t stream);

/// Makes the map's pixels of the sums.
Status finish_pixels(const PooledMap& map, const PoolParameters& p, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
