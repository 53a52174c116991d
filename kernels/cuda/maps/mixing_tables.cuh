// Tables for the maps of linear mixers, and numbers in two bfloat16 parts. Private to kernels/cuda.
//
// Positions come in blocks of 64. Two blocks R > T belong to the level l at which R >> l and T >> l first differ in
// their last bit alone, which is that of the highest bit of R xor T; between them lies a boundary, the last position e
// of the (T >> l)-th part of 2^l blocks. With queries exp(P_i - P_e) q_i and keys exp(P_e - P_j) k_j all blocks of the
// level are plain products, and no factor is above 1. At each level a block is that of queries or of keys, by the last
// bit of R >> l.
#pragma once

#include <cuda_bf16.h>

#include <bit>
#include <cstdint>

#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::maps {

/// Rows of tables are padded with zeros to whole groups of so many.
constexpr int kGroupRows = 256;

/// Level of the blocks that hold two positions, by the numbers of these blocks, which differ.
__host__ __device__ inline int level_of(int block, int other) {
#ifdef __CUDA_ARCH__
  return 31 - __clz(block ^ other);
#else
  return std::bit_width(static_cast<unsigned>(block ^ other)) - 1;
#endif
}

/// Where a head's tables lie, in bytes, and their sizes.
struct MixingTables {
  int depth = 0;          ///< head_dim padded with zeros to 64 or 128; of the delta rule also to 192 or 256
  int parts = 0;          ///< bfloat16 numbers of a query or key: 1 or 2
  int levels = 0;         ///< of channel_decay
  std::int64_t rows = 0;  ///< positions, padded
  std::int64_t part = 0;  ///< numbers from one part of an operand to the next
  /// With channel_decay [levels, parts, rows, depth]; else [parts, rows, depth]: raw queries, unused for the delta
  /// rule.
  std::int64_t query = 0;
  /// [parts, rows, depth]: raw keys; of the delta rule the rows that turn a query into a block's entries.
  std::int64_t key = 0;
  std::int64_t left = 0;      ///< delta rule, [parts, rows, depth]: what an entry takes from a query
  std::int64_t start = 0;     ///< delta rule, [rows, depth] float32: queries before their own block
  std::int64_t diagonal = 0;  ///< [rows, 64] float32: entries within each block, keys up to the row
  /// head_decay, [rows] float32: beta_j exp(c_e - c_j) at the block's last e; delta rule, [blocks]: exp(c_e - c_(b-1)).
  std::int64_t factor = 0;
  std::int64_t gate = 0;        ///< head_decay, [rows] c
  std::int64_t query_norm = 0;  ///< [levels or 1, rows / 32] largest norm, as bits of float32
  std::int64_t key_norm = 0;    ///< head_decay: likewise, of keys with their factor
  std::int64_t bytes = 0;

  explicit MixingTables(const MixingHead& head) {
    depth = static_cast<int>((head.head_dim + 63) / 64) * 64;
    parts = head.kind == MixingKind::head_decay && head.element == ElementType::bfloat16 ? 1 : 2;
    rows = (head.length + kGroupRows - 1) / kGroupRows * kGroupRows;
    part = rows * depth;
    const auto blocks = static_cast<int>((head.length + kTileKeys - 1) / kTileKeys);
    const auto take = [&](std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += (size + 255) / 256 * 256;
      return at;
    };
    const std::int64_t operand = parts * part * 2;
    const std::int64_t norms = rows / kWarpRows * 4;
    switch (head.kind) {
      case MixingKind::head_decay:
        query = take(operand);
        key = take(operand);
        factor = take(rows * 4);
        gate = take(rows * 8);
        query_norm = take(norms);
        key_norm = take(norms);
        break;
      case MixingKind::channel_decay:
        levels = blocks > 1 ? level_of(blocks - 1, 0) + 1 : 0;
        query = take(levels * operand);
        query_norm = take(levels * norms);
        break;
      case MixingKind::delta_rule:
        key = take(operand);
        left = take(operand);
        start = take(part * 4);
        factor = take(rows / kTileKeys * 4);
        break;
    }
    diagonal = take(rows * kTileKeys * 4);
  }
};

bool mixing_sizes_valid(const MixingHead& head);

/// Heads that decay and are wider than this have tables of two parts of their channels, whose entries are added.
constexpr std::int64_t kMostChannels = 128;

/// The parts of a head's channels, with what stands before their tables.
struct MixingParts {
  MixingHead head[2];  ///< with head_dim of the part alone
  std::int64_t at[2] = {};
  int count = 1;
  std::int64_t bytes = 0;

  explicit MixingParts(const MixingHead& whole) {
    const bool wide = whole.kind != MixingKind::delta_rule && whole.head_dim > kMostChannels;
    count = wide ? 2 : 1;
    for (int n = 0; n < count; ++n) {
      head[n] = whole;
      if (wide) head[n].head_dim = n == 0 ? kMostChannels : whole.head_dim - kMostChannels;
      at[n] = bytes;
      bytes += MixingTables(head[n]).bytes;
    }
  }
};

/// Two neighbours in two parts: x = high + low to 2^-18 of it.
struct SplitPair {
  std::uint32_t high = 0;
  std::uint32_t low = 0;
};
__device__ __forceinline__ std::uint32_t bits_of(__nv_bfloat162 pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ SplitPair split_pair(float x, float y) {
  const __nv_bfloat162 high = __floats2bfloat162_rn(x, y);
  const __nv_bfloat162 low = __floats2bfloat162_rn(x - __low2float(high), y - __high2float(high));
  return {bits_of(high), bits_of(low)};
}

/// exp of a difference of sums that is at most 0 where an entry is present; NaN passes.
__device__ __forceinline__ float decay_between(double later, double earlier) {
  const double difference = later - earlier;
  return exp2_fast(static_cast<float>((difference > 0 ? 0.0 : difference) * kLog2E));
}

/// Prepares the tables of the delta rule, in a file of its own.
Status prepare_delta(const MixingHead& head, const MixingTables& plan, char* memory, int shared_bytes,
                     cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
