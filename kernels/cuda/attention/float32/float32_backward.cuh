// The backward of forgetting attention in float32: ordinary multiplications on register tiles. Private to kernels/cuda.
//
// Two launches of one kernel. In the first a thread block owns keys and goes through the rows that see them, for dK, dV
// and the columns' sums; in the second it owns rows and goes through their keys, for dQ and the rows' sums. S and dP
// are made twice, but nothing is added to memory, so that no order of additions is left to chance.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/attention/float32/float32_tile.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda::float32 {

constexpr int kBackwardThreads = 128;
constexpr int kBackwardLanes = 16;  // that share a row of the products
constexpr int kBackwardGroups = kBackwardThreads / kBackwardLanes;
constexpr TileShape kPruningTile = kFloat32Tile;

template <int HeadDim, int Rows>
using BackwardTile = RowTile<HeadDim, Rows, kBackwardThreads>;

/// Own: q and dO, or k and v. Other: k and v, or q and dO. 90 KiB at most: every card has 99.
template <int HeadDim, int Block>
struct BackwardStorage {
  static constexpr int kWeightStride = Block + 16;  // so that the two groups of a warp lie in different banks
  BackwardTile<HeadDim, Block> own[2], other[2];
  float weights[Block * kWeightStride];  // P or dS, a row of the thread block's own after the other
};

/// The side that a thread block owns.
enum class Owns { keys, rows };

/// A thread's part: rows group + 8 r of its own block, entries lane + 16 j of the other, columns lane + 16 x.
template <int HeadDim, int Block, Owns Side>
struct BackwardBlock {
  static constexpr int kOwn = Block / kBackwardGroups;
  static constexpr int kOther = Block / kBackwardLanes;
  static constexpr int kColumns = HeadDim / kBackwardLanes;
  using Storage = BackwardStorage<HeadDim, Block>;
  using Tile = BackwardTile<HeadDim, Block>;
  using Products = float[kOwn][kOther];
  using Sums = float[kOwn][kColumns];

  const BackwardParameters& p;
  Storage& storage;
  int lane, group;
  std::int64_t head;  // of B H
  int own_block;

  [[nodiscard]] __device__ int own_position(int r) const { return own_block * Block + group + kBackwardGroups * r; }
  [[nodiscard]] __device__ int other_position(int block, int j) const {
    return block * Block + lane + kBackwardLanes * j;
  }

  /// products[r][j] = own_r . other_j
  __device__ void multiply(const Tile& own, const Tile& other, Products& products) const {
#pragma unroll
    for (auto& row : products) {
#pragma unroll
      for (float& x : row) x = 0;
    }
#pragma unroll 2
    for (int x = 0; x < HeadDim; x += 4) {
      float4 b[kOther];
#pragma unroll
      for (int j = 0; j < kOther; ++j) {
        b[j] = *reinterpret_cast<const float4*>(other.x + (lane + kBackwardLanes * j) * Tile::kStride + x);
      }
#pragma unroll
      for (int r = 0; r < kOwn; ++r) {
        const float4 a = *reinterpret_cast<const float4*>(own.x + (group + kBackwardGroups * r) * Tile::kStride + x);
#pragma unroll
        for (int j = 0; j < kOther; ++j) {
          products[r][j] = fmaf(a.x, b[j].x, products[r][j]);
          products[r][j] = fmaf(a.y, b[j].y, products[r][j]);
          products[r][j] = fmaf(a.z, b[j].z, products[r][j]);
          products[r][j] = fmaf(a.w, b[j].w, products[r][j]);
        }
      }
    }
  }

  /// sums[r][x] += sum over entries of weight[row, entry] other[entry, column]
  __device__ void accumulate(const Tile& other, Sums& sums) const {
#pragma unroll 2
    for (int entry = 0; entry < Block; entry += 4) {
      float b[4][kColumns];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int x = 0; x < kColumns; ++x) {
          b[i][x] = other.x[(entry + i) * Tile::kStride + lane + kBackwardLanes * x];
        }
      }
#pragma unroll
      for (int r = 0; r < kOwn; ++r) {
        const float4 w = *reinterpret_cast<const float4*>(
            storage.weights + (group + kBackwardGroups * r) * Storage::kWeightStride + entry);
#pragma unroll
        for (int x = 0; x < kColumns; ++x) {
          sums[r][x] = fmaf(w.x, b[0][x], sums[r][x]);
          sums[r][x] = fmaf(w.y, b[1][x], sums[r][x]);
          sums[r][x] = fmaf(w.z, b[2][x], sums[r][x]);
          sums[r][x] = fmaf(w.w, b[3][x], sums[r][x]);
        }
      }
    }
  }

  __device__ void share(const Products& products) const {
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
#pragma unroll
      for (int j = 0; j < kOther; ++j) {
        storage.weights[(group + kBackwardGroups * r) * Storage::kWeightStride + lane + kBackwardLanes * j] =
            products[r][j];
      }
    }
  }

  /// Logits become weights, dP becomes dS.
  __device__ void backward(int other_block, Products& weights, Products& gradients) const {
    const int row_block = Side == Owns::keys ? other_block : own_block;
    const RowStatistics& rows = p.statistics[head * p.row_parts + std::int64_t{row_block} * Block / kStatisticsRows];
    const auto split_gate = [&](int key) {
      return SplitGate(p.gate == nullptr ? 0 : rows.first_gate - p.gate[head * p.length + min(key, p.length - 1)]);
    };
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
#pragma unroll
      for (int j = 0; j < kOther; ++j) {
        const int row = Side == Owns::keys ? other_position(other_block, j) : own_position(r);
        const int key = Side == Owns::keys ? own_position(r) : other_position(other_block, j);
        const SplitGate gate = split_gate(key);
        const int at = row % kStatisticsRows;
        const float shift = (rows.term[at] + gate.high) + (rows.rest[at] + gate.low);
        const int distance = row - key;
        const bool seen = distance >= 0 && (p.window_size == 0 || distance < p.window_size);
        weights[r][j] = seen ? exp2_fast(fmaf(weights[r][j], p.scale_log2, shift)) : 0.0F;
        gradients[r][j] = weights[r][j] * (gradients[r][j] - rows.delta[at]);
      }
    }
  }

  /// Stores sums to [B, H or H_kv, L, d].
  __device__ void store(const Sums& sums, const MutableTensorView& view, std::int64_t offset, int head_dim,
                        float factor) const {
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      if (own_position(r) >= p.length) continue;
      float* to = static_cast<float*>(view.data) + offset + own_position(r) * view.row;
#pragma unroll
      for (int x = 0; x < kColumns; ++x) {
        const int column = lane + kBackwardLanes * x;
        if (column < head_dim) to[column] = sums[r][x] * factor;
      }
    }
  }

  /// Stores the sums of dS over the other side.
  __device__ void store_sums(float (&sums)[kOwn], float* to) const {
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
#pragma unroll
      for (int step = kBackwardLanes / 2; step > 0; step /= 2) sums[r] += __shfl_xor_sync(0xffffffffU, sums[r], step);
      if (lane == 0 && own_position(r) < p.length) to[head * p.length + own_position(r)] = sums[r];
      sums[r] = 0;
    }
  }
};

/// Blocks of the other side: [first, last].
template <int Block, Owns Side>
__device__ void find_other_blocks(const BackwardParameters& p, std::int64_t head, int own_block, int& first,
                                  int& last) {
  constexpr int kOfTile = kPruningTile.rows / Block;  // of the blocks that pruning knows
  static_assert(kPruningTile.rows == kPruningTile.keys && kPruningTile.rows % Block == 0);
  const int blocks = (p.length + Block - 1) / Block;
  if (Side == Owns::keys) {
    first = own_block;
    const int last_of_tile = last_row_block(p, kPruningTile, head, own_block / kOfTile);
    last = min(blocks - 1, last_of_tile * kOfTile + kOfTile - 1);
  } else {
    last = own_block;
    first = p.window_size > 0 ? max(0, own_block * Block - p.window_size + 1) / Block : 0;
    if (p.first_block != nullptr) {
      first = max(first, p.first_block[head * p.row_blocks + own_block / kOfTile] * kOfTile);
    }
  }
}

template <int HeadDim, int Block, Owns Side>
__global__ void __launch_bounds__(kBackwardThreads)
    backward_kernel(const __grid_constant__ BackwardParameters p, const int head_dim) {
  extern __shared__ __align__(16) char memory[];
  using Part = BackwardBlock<HeadDim, Block, Side>;
  auto& storage = *reinterpret_cast<BackwardStorage<HeadDim, Block>*>(memory);
  constexpr bool kKeys = Side == Owns::keys;
  const int blocks = (p.length + Block - 1) / Block;
  const int own_heads = kKeys ? p.key_heads : p.heads;
  const int index = static_cast<int>(blockIdx.x) / (own_heads * p.batch);
  const int own_head = static_cast<int>(blockIdx.x) % own_heads;
  const int batch = static_cast<int>(blockIdx.x) / own_heads % p.batch;
  const auto thread = static_cast<int>(threadIdx.x);
  // The longest first: keys at the start, rows at the end.
  Part part{p, storage, thread % kBackwardLanes, thread / kBackwardLanes, 0, kKeys ? index : blocks - 1 - index};
  const auto load = [&](auto& tiles, bool keys, int head, int block) {
    const TensorView& a = keys ? p.key : p.query;
    const TensorView& b = keys ? p.value : p.output_gradient;
    tiles[0].load(a, batch * a.batch + head * a.head, block * Block, p, head_dim);
    tiles[1].load(b, batch * b.batch + head * b.head, block * Block, p, head_dim);
  };
  load(storage.own, kKeys, own_head, part.own_block);
  typename Part::Sums gradient = {};        // dK or dQ
  typename Part::Sums value_gradient = {};  // dV
  float sums[Part::kOwn] = {};
  for (int g = 0; g < (kKeys ? p.group : 1); ++g) {
    const int head = kKeys ? own_head * p.group + g : own_head;
    part.head = std::int64_t{batch} * p.heads + head;
    int first = 0;
    int last = 0;
    find_other_blocks<Block, Side>(p, part.head, part.own_block, first, last);
    for (int other = last; other >= first; --other) {
      load(storage.other, !kKeys, kKeys ? head : head / p.group, other);
      commit();
      wait<0>();
      __syncthreads();
      typename Part::Products weights;
      typename Part::Products gradients;
      part.multiply(storage.own[0], storage.other[0], weights);
      part.multiply(storage.own[1], storage.other[1], gradients);
      part.backward(other, weights, gradients);
#pragma unroll
      for (int r = 0; r < Part::kOwn; ++r) {
#pragma unroll
        for (int j = 0; j < Part::kOther; ++j) sums[r] += gradients[r][j];
      }
      if constexpr (kKeys) {
        part.share(weights);
        __syncthreads();
        part.accumulate(storage.other[1], value_gradient);
        __syncthreads();
      }
      part.share(gradients);
      __syncthreads();
      part.accumulate(storage.other[0], gradient);
      __syncthreads();
    }
    part.store_sums(sums, kKeys ? p.column_sums : p.row_sums);
  }
  const auto store = [&](const typename Part::Sums& x, const MutableTensorView& view, float factor) {
    part.store(x, view, batch * view.batch + own_head * view.head, head_dim, factor);
  };
  if constexpr (kKeys) store(value_gradient, p.value_gradient, 1);
  store(gradient, kKeys ? p.key_gradient : p.query_gradient, p.scale);
}

template <int HeadDim>
cudaError_t launch_backward(const BackwardParameters& p, int head_dim, cudaStream_t stream) {
  constexpr int kBlock = HeadDim > 64 ? 32 : 64;
  constexpr int kBytes = static_cast<int>(sizeof(BackwardStorage<HeadDim, kBlock>));
  static_assert(kBytes <= 99 * 1024);
  const int blocks = (p.length + kBlock - 1) / kBlock * p.batch;
  const auto launch_side = [&](auto* kernel, int heads) {
    if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
    kernel<<<static_cast<unsigned>(blocks * heads), kBackwardThreads, kBytes, stream>>>(p, head_dim);
    return cudaGetLastError();
  };
  if (const auto e = launch_side(backward_kernel<HeadDim, kBlock, Owns::keys>, p.key_heads)) return e;
  return launch_side(backward_kernel<HeadDim, kBlock, Owns::rows>, p.heads);
}

}  // namespace foxscope::kernels::cuda::float32
