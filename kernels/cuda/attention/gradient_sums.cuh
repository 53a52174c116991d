// Gradients of weights: sums over rows in two stages of fixed order. A kernel's blocks of rows leave one sum a column
// each, the workspace [blocks, columns], which add_sums adds up. Private to kernels/cuda.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace foxscope::kernels::cuda {

/// A wave of blocks on a large GPU; more would write and read more sums.
constexpr std::int64_t kMostSummedBlocks = 512;

/// How rows are divided, by the sizes alone.
struct SummedRows {
  std::int64_t rows_of_block = 0;  ///< a multiple of the rows that a block takes at once
  std::int64_t count = 0;

  SummedRows(std::int64_t rows, std::int64_t at_once) {
    rows_of_block = (rows + at_once * kMostSummedBlocks - 1) / (at_once * kMostSummedBlocks) * at_once;
    count = (rows + rows_of_block - 1) / rows_of_block;
  }
  [[nodiscard]] std::size_t sum_bytes(std::int64_t columns) const {
    return static_cast<std::size_t>(count * columns) * sizeof(float);
  }
};

/// to[x] += sum over b of sums[b stride + x].
/// @param blocks  at most kMostSummedBlocks
/// @param stride  columns of a block's sums, those of several weights side by side
void add_sums(const float* sums, std::int64_t blocks, std::int64_t stride, std::int64_t columns, float* to,
              cudaStream_t stream);

}  // namespace foxscope::kernels::cuda
