// A tile of float32 rows in shared memory. Private to kernels/cuda.
#pragma once

#include <cstdint>
#include <cute/arch/util.hpp>

#include "kernels/cuda/attention/attention_parameters.cuh"

namespace foxscope::kernels::cuda::float32 {

/// Rows of a tile, with 16 bytes between them so that eight rows lie in different banks.
/// @tparam Threads  that copy
template <int HeadDim, int Rows, int Threads>
struct RowTile {
  static constexpr int kStride = HeadDim + 4;
  float x[Rows * kStride];

  /// Starts copying rows [first, first + Rows); zeros from `length` and from `head_dim` on.
  template <class Parameters>
  __device__ void load(const TensorView& from, std::int64_t offset, int first, const Parameters& p, int head_dim) {
    const auto* source = static_cast<const float*>(from.data) + offset;
    p.aligned ? copy<4>(source, from.row, first, p.length, head_dim)
              : copy<1>(source, from.row, first, p.length, head_dim);
  }

 private:
  template <int Width>
  __device__ void copy(const float* source, std::int64_t stride, int first, int length, int head_dim) {
    constexpr int kChunks = HeadDim / Width;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < Rows * kChunks; i += Threads) {
      const int row = i / kChunks;
      const int column = i % kChunks * Width;
      const bool inside = first + row < length && column < head_dim;
      const float* at = inside ? source + (first + row) * stride + column : source;
      const auto to = cute::cast_smem_ptr_to_uint(x + row * kStride + column);
      if constexpr (Width == 4) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(at), "r"(inside ? 16 : 0)
                     : "memory");
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(at), "r"(inside ? 4 : 0) : "memory");
      }
    }
  }
};

}  // namespace foxscope::kernels::cuda::float32
