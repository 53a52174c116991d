// Which pairs of blocks attention's backward visits, and whose turn it is to add to dQ. Private to kernels/cuda.
#pragma once

#include <cstdint>

#include <climits>

#include "kernels/cuda/attention/backward_parameters.cuh"

namespace foxscope::kernels::cuda {

/// Turns the first key block of each block of rows into the last block of rows of each key block; a thread block of two
/// warps a head. Each block of rows gets the least over the blocks after it too, so that both rise.
/// @param first  [B, H, row_blocks] in and out
/// @param last   [B, H, key_blocks] out
static __global__ void find_last_blocks(int row_blocks, int key_blocks, int* first, int* last) {
  first += std::int64_t{blockIdx.x} * row_blocks;
  last += std::int64_t{blockIdx.x} * key_blocks;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  for (int n = thread; n < key_blocks; n += static_cast<int>(blockDim.x)) last[n] = 0;
  __syncthreads();
  for (int m = thread; m < row_blocks; m += static_cast<int>(blockDim.x)) atomicMax(last + first[m], m);
  __syncthreads();
  if (thread < 32) {
    int most = 0;
    for (int n = 0; n < key_blocks; n += 32) {
      int x = n + lane < key_blocks ? last[n + lane] : 0;
      for (int step = 1; step < 32; step *= 2) x = max(x, __shfl_up_sync(0xffffffffU, x, step));
      most = max(most, x);
      if (n + lane < key_blocks) last[n + lane] = most;
      most = __shfl_sync(0xffffffffU, most, 31);
    }
  } else {
    int least = INT_MAX;
    for (int m = row_blocks - 1; m >= 0; m -= 32) {
      int x = m >= lane ? first[m - lane] : INT_MAX;
      for (int step = 1; step < 32; step *= 2) x = min(x, __shfl_up_sync(0xffffffffU, x, step));
      least = min(least, x);
      if (m >= lane) first[m - lane] = least;
      least = __shfl_sync(0xffffffffU, least, 31);
    }
  }
}

/// Sets whose turn it is to the last key block that each block of rows sees.
static __global__ void begin_turns(const __grid_constant__ BackwardParameters p, TileShape tile) {
  const int pieces = p.row_parts * (kStatisticsRows / kSumRows);
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i == 0) *p.ticket = 0;
  if (i >= std::int64_t{p.batch} * p.heads * pieces) return;
  const int block = min(static_cast<int>(i % pieces) * kSumRows / tile.rows, p.row_blocks - 1);
  const int last = min(((block + 1) * tile.rows - 1) / tile.keys, p.key_blocks - 1);
  for (int n = 0; n < kTurns; ++n) p.turns[i * kTurns + n] = last;
}

}  // namespace foxscope::kernels::cuda
