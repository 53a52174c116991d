// Parameters that the kernels of attention's backward share. Private to kernels/cuda.
//
// A thread block owns a block of keys, whose dK and dV it keeps, and goes through the blocks of rows that see them, of
// one query head of the group after the other. dQ is added to memory: by whoever comes, or in turns, and then the key
// blocks of a block of rows add from the last to the first. Each goes through the rows from its own on, so that thread
// blocks that begin together are a block of rows apart, and find that it is their turn.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {

/// Rows of RowStatistics.
constexpr int kStatisticsRows = 64;

/// Statistics of 64 rows before the products. With c0 the gate at the first of them,
///   P_ij = exp2(scale_log2 q_i.k_j + term_i + (c0 - c_j) log2(e)).
/// Where j may lie behind the first row, term and gate are large and cancel: there both have a second float32 that
/// holds what rounding took from the first.
struct RowStatistics {
  float term[kStatisticsRows];   ///< ((c_i - c0) - log-normaliser_i) log2(e); -infinity of rows past the end
  float delta[kStatisticsRows];  ///< dO_i.O_i
  float rest[kStatisticsRows];   ///< what `term` lacks
  double first_gate;             ///< c0, nats
  double unused;                 ///< to 16 bytes
};

/// Rows of a piece of the sums for dQ.
constexpr int kSumRows = 16;

/// Numbers of a piece: 16 rows of d columns as a warp's lanes hold them after products, eight columns after the other,
/// each four numbers a lane (row l / 4 of columns 2 (l % 4) and the next, then row l / 4 + 8); then a sum of dS a row.
constexpr int sum_piece(int head_dim) { return kSumRows * (head_dim + 1); }

/// Turns that a piece of the sums has room for.
constexpr int kTurns = 2;

struct BackwardParameters {
  TensorView query, key, value, output, output_gradient;
  MutableTensorView query_gradient, key_gradient, value_gradient;
  const double* gate = nullptr;           ///< [B, H, L] cumulative, nats; null: none
  const float* log_normalizer = nullptr;  ///< [B, H, L] nats
  RowStatistics* statistics = nullptr;    ///< [B, H, row_parts]
  float* sums = nullptr;                  ///< [B, H, 4 row_parts, sum_piece(d)]
  float* row_sums = nullptr;              ///< [B, H, L] in float32 only
  float* column_sums = nullptr;           ///< [B, H, L]
  const int* first_block = nullptr;       ///< [B, H, row_blocks] key blocks before it are skipped, never falling
  const int* last_block = nullptr;        ///< [B, H, key_blocks] blocks of rows after it are skipped, never falling
  /// [B, H, 4 row_parts, kTurns] the key block that adds next: on Hopper a block of rows has the first alone, on other
  /// cards each of its warps one; null: any order
  int* turns = nullptr;
  int* ticket = nullptr;  ///< thread blocks that have begun, where there are turns
  int batch = 0, heads = 0, key_heads = 0, group = 1, length = 0;
  int window_size = 0;
  float scale = 0, scale_log2 = 0;
  int row_parts = 0;  ///< of 64 rows
  int row_blocks = 0, key_blocks = 0;
  int heads_at_a_time = 1;  ///< key heads whose thread blocks follow each other
  bool aligned = true;      ///< rows start at multiples of 16 bytes
  int shared_bytes = 0;     ///< of a multiprocessor
  int head_groups = 1;      ///< of heads at a time; the last has all that are left
};

/// A block of keys of one key head.
struct KeyWork {
  int block, key_head, batch;
};

/// The item-th: heads whose rows fit the L2 cache together go at a time, and among those the first keys, which most
/// rows see, go first; with turns the last, for which others wait. The last group of heads is large enough that it ends
/// with many short thread blocks.
__device__ __forceinline__ KeyWork find_key_work(const BackwardParameters& p, int item) {
  const int group_size = p.heads_at_a_time * p.key_blocks;
  const int group = min(item / group_size, p.head_groups - 1);
  const int index = item - group * group_size;
  const int left = p.key_heads * p.batch - group * p.heads_at_a_time;
  const int in_group = group == p.head_groups - 1 ? left : p.heads_at_a_time;
  const int head = group * p.heads_at_a_time + index % in_group;
  const int block = index / in_group;
  return {p.turns == nullptr ? block : p.key_blocks - 1 - block, head % p.key_heads, head / p.key_heads};
}

/// The last block of rows that sees a block of keys.
/// @param head  of B H
__device__ __forceinline__ int last_row_block(const BackwardParameters& p, TileShape tile, std::int64_t head,
                                              int key_block) {
  int last = p.row_blocks - 1;
  if (p.window_size > 0) {
    const std::int64_t row = std::int64_t{key_block + 1} * tile.keys - 1 + p.window_size - 1;
    last = static_cast<int>(min(std::int64_t{last}, row / tile.rows));
  }
  if (p.last_block != nullptr) last = min(last, p.last_block[head * p.key_blocks + key_block]);
  return last;
}

/// The pairs of a query head of the group and a block of rows that a block of keys goes through: from the last rows to
/// the first, with turns from the first to the last.
struct RowBlocks {
  int flat_head;  ///< of B H
  int row_block;
  int end;         ///< the head's block of rows that is the last to be gone through
  int heads_left;  ///< this one too; 0: all is done

  __device__ RowBlocks(const BackwardParameters& p, const KeyWork& work, TileShape tile)
      : flat_head(work.batch * p.heads + work.key_head * p.group), heads_left(p.group) {
    begin_head(p, work, tile);
  }
  [[nodiscard]] __device__ __forceinline__ bool valid() const { return heads_left > 0; }
  [[nodiscard]] __device__ __forceinline__ bool last_of_head() const { return row_block == end; }
  __device__ __forceinline__ void advance(const BackwardParameters& p, const KeyWork& work, TileShape tile) {
    if (!last_of_head()) {
      row_block += p.turns == nullptr ? -1 : 1;
      return;
    }
    ++flat_head;
    if (--heads_left > 0) begin_head(p, work, tile);
  }

 private:
  __device__ __forceinline__ void begin_head(const BackwardParameters& p, const KeyWork& work, TileShape tile) {
    const int first = work.block * tile.keys / tile.rows;
    const int last = max(first, last_row_block(p, tile, flat_head, work.block));
    row_block = p.turns == nullptr ? last : first;
    end = p.turns == nullptr ? first : last;
  }
};

/// A difference of gates, in units of log2, as the sum of two float32.
struct SplitGate {
  float high, low;
  __device__ __forceinline__ explicit SplitGate(double nats) {
    const double x = nats * kLog2E;
    high = static_cast<float>(x);
    low = static_cast<float>(x - static_cast<double>(high));
  }
};

/// Until all key blocks behind this one have added.
__device__ __forceinline__ void await_turn(const int* turn, int key_block) {
  int now;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
  } while (now != key_block);
}

__device__ __forceinline__ void pass_turn(int* turn, int key_block) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(key_block - 1) : "memory");
}

// One function a head dimension and architecture, each in a file of its own.
inline constexpr TileShape kHopperBackwardTile64 = {128, 128};
inline constexpr TileShape kHopperBackwardTile128 = {64, 128};
inline constexpr TileShape kPortableBackwardTile = {64, 128};
cudaError_t hopper_backward_64(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t hopper_backward_128(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t portable_backward_16(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t portable_backward_32(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t portable_backward_64(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t portable_backward_96(const BackwardParameters& parameters, cudaStream_t stream);
cudaError_t portable_backward_128(const BackwardParameters& parameters, cudaStream_t stream);
/// @param head_dim  a multiple of 8 up to 128
cudaError_t float32_backward(const BackwardParameters& parameters, int head_dim, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda
