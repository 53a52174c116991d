// What the delta rule's kernels, forward and back, have in common. A block has 8 warps, of which four share the rows of
// a chunk, 16 a warp, and two the columns. Private to kernels/cuda/linear.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/delta_chunks.h"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda::delta_tiles {

inline constexpr int kT = static_cast<int>(kLinearChunk);
inline constexpr int kThreads = 256;
inline constexpr int kBands = kT / 16;
inline constexpr int kPad = 8;       // numbers between rows in shared memory, so that eight rows lie in different banks
inline constexpr int kColumns = 32;  // of a state, of a block
inline constexpr int kColumnStride = kColumns + kPad;
inline constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;
static_assert(kThreads == 2 * kBands * 32);

/// exp(min(0, x)); NaN stays.
__device__ __forceinline__ float decay(float x) { return __expf(x > 0.0F ? 0.0F : x); }

/// Where a lane's entries of 16 x 8 lie, as mma.sync leaves them: e is of row `row` + 8 (e / 2), column `column` + e
/// % 2.
struct Lane {
  int row = static_cast<int>(threadIdx.x) % 32 / 4;
  int column = static_cast<int>(threadIdx.x) % 4 * 2;
};

/// A left operand from rows that lie as they are, or a right one of two tiles, f[0], f[2] and f[1], f[3], from columns.
__device__ __forceinline__ void load_rows(const Bfloat16* from, int stride, int row, int column,
                                          std::uint32_t (&f)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_fragment(from + (row + lane % 16) * stride + column + lane / 16 * 8, f);
}

/// A right operand of two tiles, f[0], f[1] and f[2], f[3], from rows that lie as they are.
__device__ __forceinline__ void load_columns(const Bfloat16* from, int stride, int row, int column,
                                             std::uint32_t (&f)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_transposed(from + (row + lane % 16) * stride + column + lane / 16 * 8, f);
}

/// The left operand of a product with the transpose of what lies in memory: row `row` there is the first of its depth.
__device__ __forceinline__ void load_left_transposed(const Bfloat16* from, int stride, int row, int column,
                                                     std::uint32_t (&f)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_transposed(from + (row + lane % 8 + lane / 16 * 8) * stride + column + lane / 8 % 2 * 8, f);
}

__host__ __device__ constexpr int depth_of(std::int64_t width) { return static_cast<int>((width + 15) / 16 * 16); }

/// Starts copying T rows of some of their columns.
__device__ __forceinline__ void copy_rows(const Bfloat16* from, int width, int first, int count, Bfloat16* to,
                                          int stride) {
  const int pieces = count / 8;
  for (int e = static_cast<int>(threadIdx.x); e < kT * pieces; e += kThreads) {
    const int row = e / pieces;
    const int column = e % pieces * 8;
    copy_async<16>(to + row * stride + column, from + std::int64_t{row} * width + first + column, true);
  }
}

__device__ __forceinline__ const float* rows_of(const HeadRows& x, std::int64_t b, std::int64_t head, std::int64_t t) {
  return x.data + b * x.batch_stride + head * x.head_stride + t * x.row_stride;
}

inline bool is_size(std::int64_t size) { return size >= 1 && size < kMostBlocks; }

inline bool widths_fit(std::int64_t rows, std::int64_t columns) {
  return rows >= 8 && rows <= kMostDeltaRows && rows % 8 == 0 && columns >= 8 && columns % 8 == 0 && is_size(columns);
}

inline bool readable(const HeadRows& x) {
  return x.data != nullptr && aligned_16(x.data) && x.batch_stride % 4 == 0 && x.head_stride % 4 == 0 &&
         x.row_stride % 4 == 0;
}

template <class Kernel>
Status allow_memory(Kernel kernel, int bytes) {
  return status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

/// Whether a block of the current device can have so many bytes of shared memory, beside a kernel's own arrays.
inline bool shared_memory_holds(std::int64_t bytes) {
  constexpr int kStatic = 1024;
  int device = 0;
  int most = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
         bytes + kStatic <= most;
}

/// 2 where the current device's shared memory holds what two chunks take, else 1.
/// @param bytes  that two take
inline int stages_that_fit(int bytes) { return shared_memory_holds(bytes) ? 2 : 1; }

}  // namespace foxscope::kernels::cuda::delta_tiles
