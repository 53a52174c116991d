// How threads divide the heads of a row: a head is held by a group of lanes, eight numbers each. Where heads are
// turned, a lane holds four numbers of either half of the head, so that both of a pair (x, x + d/2) are its own.
// Private to kernels/cuda.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {

constexpr int kMostHeadDim = 256;

inline bool head_sizes_valid(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
  return rows >= 1 && rows <= std::int64_t{1} << 30 && heads >= 1 && heads <= 65535 && head_dim >= 8 &&
         head_dim <= kMostHeadDim && head_dim % 8 == 0;
}

/// Lanes of a head: a power of 2.
inline int lanes_of(std::int64_t head_dim) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(head_dim / 8)));
}

/// @param threads  of a block
inline dim3 grid_of(std::int64_t row_blocks, std::int64_t heads, int lanes, int threads) {
  const std::int64_t heads_of_block = threads / lanes;
  return {static_cast<unsigned>(row_blocks), static_cast<unsigned>((heads + heads_of_block - 1) / heads_of_block)};
}

/// Sum over the lanes of a head.
__device__ __forceinline__ float sum_over_head(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

/// Where a lane stands: head, first column of its eight, and whether there are any.
struct Place {
  int head = 0;
  int column = 0;
  bool inside = false;

  __device__ Place(int lanes, int heads, int head_dim) {
    const auto thread = static_cast<int>(threadIdx.x);
    head = static_cast<int>(blockIdx.y) * (static_cast<int>(blockDim.x) / lanes) + thread / lanes;
    column = thread % lanes * 8;
    inside = head < heads && column < head_dim;
    head = min(head, heads - 1);
  }
};

/// The columns of a head that a lane holds: eight neighbours, or four of either half.
/// @tparam Halves  the latter
template <bool Aligned, bool Halves>
struct Columns {
  int low = 0;   ///< the first four
  int high = 0;  ///< the other four

  __device__ Columns(const Place& place, int head_dim)
      : low(Halves ? place.column / 2 : place.column), high(low + (Halves ? head_dim / 2 : 4)) {}

  template <class T>
  __device__ __forceinline__ void load(const T* row, RawChunk<T>& raw) const {
    if constexpr (!Halves) {
      load_chunk<Aligned>(row + low, 8, raw);
    } else if constexpr (Aligned) {
      raw.load(row + low, row + high);
    } else {
      T numbers[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) numbers[i] = row[low + i], numbers[4 + i] = row[high + i];
      raw.load(numbers, 8);
    }
  }

  __device__ __forceinline__ void store(Bfloat16* row, const RowChunk& x) const {
    if constexpr (!Halves) {
      store_chunk<Aligned>(row + low, 8, x);
    } else if constexpr (Aligned) {
      *reinterpret_cast<uint2*>(row + low) = {narrow(x[0], x[1]), narrow(x[2], x[3])};
      *reinterpret_cast<uint2*>(row + high) = {narrow(x[4], x[5]), narrow(x[6], x[7])};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        row[low + i] = __float2bfloat16_rn(x[i]);
        row[high + i] = __float2bfloat16_rn(x[4 + i]);
      }
    }
  }

  __device__ __forceinline__ void store(float* row, const RowChunk& x) const {
    if constexpr (Aligned) {
      *reinterpret_cast<float4*>(row + low) = {x[0], x[1], x[2], x[3]};
      *reinterpret_cast<float4*>(row + high) = {x[4], x[5], x[6], x[7]};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) row[low + i] = x[i], row[high + i] = x[4 + i];
    }
  }
};

}  // namespace foxscope::kernels::cuda
