// Pixels while entries are gathered in them. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/map_tiles.cuh"
#include "kernels/cuda/pooled_map.h"

namespace foxscope::kernels::cuda::maps {

struct PoolParameters {
  HeadParameters head[2];
  int heads = 1;
  int length = 0;
  int window = 0;
  int row_begin = 0, row_end = 0;
  int column_begin = 0, column_end = 0;
  int pixel_columns = 0;
  int first_tile = 0;
  int tiles_per_item = 0;
  MapValue value = MapValue::attention;
  MapReduction reduction = MapReduction::max;
  bool logarithm = false;            ///< extremes are those of the entries' logarithms: one exponential a pixel
  bool staged = false;               ///< bins have fewer columns than a step
  double limit = 0;                  ///< log2 below which tiles are left out, where a head has norms
  const int* row_bin = nullptr;      ///< [rows]
  const int* column_bin = nullptr;   ///< [columns]
  const int* row_edge = nullptr;     ///< [pixel_rows + 1]
  const int* column_edge = nullptr;  ///< [pixel_columns + 1]
  unsigned* extreme = nullptr;       ///< [pixels] order-preserving codes; 0 before the launch
  double* sum = nullptr;             ///< [pixels] for means; 0 before the launch
};

/// What the compiler knows of a map.
enum class PoolMode {
  any,
  peaks,  ///< extremes of attention's logarithm are its largest, and bins have 16 columns and more
  sums,   ///< means of attention, likewise
};

/// A code whose order as an unsigned number is that of the reduction; 0 is below all.
__device__ __forceinline__ unsigned encode(float value, MapReduction reduction) {
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
      return fmaxf(a, b);
    case MapReduction::min:
      return fminf(a, b);
    case MapReduction::mean:
      return a + b;
    default: {
      const float high = fmaxf(a, b);
      const float low = fminf(a, b);
      return high >= -low ? high : low;
    }
  }
}

/// Adds one value to a pixel.
__device__ __forceinline__ void put(const PoolParameters& p, std::int64_t pixel, float value) {
  if (p.reduction == MapReduction::mean) {
    atomicAdd(p.sum + pixel, static_cast<double>(value));
  } else {
    atomicMax(p.extreme + pixel, encode(value, p.reduction));
  }
}

}  // namespace foxscope::kernels::cuda::maps
