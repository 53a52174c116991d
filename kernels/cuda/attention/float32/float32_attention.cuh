// Forgetting attention in float32: ordinary multiplications on register tiles, running maximum. Private to
// kernels/cuda.
//
// A thread holds 8 rows x 4 keys of the logits and 8 rows x d/16 columns of the output; tiles lie in shared memory as
// they come, and are read 16 bytes along d (keys) or along the keys (values). The gate: with r the first row of the
// block, c_i - c_j = (c_i - c_r) + (c_r - c_j), both from float64 and neither above 0, so that the sum loses nothing;
// only in the diagonal tile, where j may be after r, each difference is taken in float64 by itself.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/attention/float32/float32_tile.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::float32 {

constexpr int kRows = kFloat32Tile.rows;
constexpr int kKeys = kFloat32Tile.keys;
constexpr int kThreads = 128;
constexpr int kLanes = 16;  // that share rows
constexpr int kGroups = kThreads / kLanes;
constexpr int kRowsOfThread = kRows / kGroups;
constexpr int kKeysOfThread = kKeys / kLanes;
constexpr int kWeightStride = kKeys + 16;  // so that the two groups of a warp lie in different banks
static_assert(kRows == kKeys);

template <int HeadDim>
using Tile = RowTile<HeadDim, kKeys, kThreads>;

/// The weights follow. With wide heads they lie where the keys were, which then cannot be copied ahead: 99 KiB is what
/// every card has.
template <int HeadDim>
struct Storage {
  static constexpr bool kShared = HeadDim > 64;
  static constexpr int kWeightBytes = kRows * kWeightStride * 4;
  Tile<HeadDim> query, key, value;

  __device__ float* weights() { return kShared ? key.x : reinterpret_cast<float*>(this + 1); }
  static constexpr int bytes() { return static_cast<int>(sizeof(Storage)) + (kShared ? 0 : kWeightBytes); }
};
static_assert(Storage<128>::bytes() <= 99 * 1024 && Storage<96>::kWeightBytes <= sizeof(Tile<96>));

/// Columns of the output that a thread holds: four neighbours of each 64, of a rest of 32 two, of 16 one.
template <int HeadDim>
struct Columns {
  static constexpr int kCount = HeadDim / kLanes;
  static constexpr int kFours = HeadDim / 64;
  static constexpr int kRest = HeadDim % 64 / kLanes;
  static_assert(kRest <= 2);

  __device__ static __forceinline__ int at(int index, int lane) {
    return index < 4 * kFours ? index / 4 * 64 + 4 * lane + index % 4 : kFours * 64 + kRest * lane + index - 4 * kFours;
  }
  __device__ static __forceinline__ void read(const float* row, int lane, float (&x)[kCount]) {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      const float4 four = *reinterpret_cast<const float4*>(row + 64 * f + 4 * lane);
      x[4 * f] = four.x, x[4 * f + 1] = four.y, x[4 * f + 2] = four.z, x[4 * f + 3] = four.w;
    }
    if constexpr (kRest == 2) {
      const float2 two = *reinterpret_cast<const float2*>(row + 64 * kFours + 2 * lane);
      x[4 * kFours] = two.x, x[4 * kFours + 1] = two.y;
    } else if constexpr (kRest == 1) {
      x[4 * kFours] = row[64 * kFours + lane];
    }
  }
};

/// logits[r][j] = q_row . k_key
template <int HeadDim>
__device__ __forceinline__ void multiply_keys(const Tile<HeadDim>& query, const Tile<HeadDim>& key, int group, int lane,
                                              float (&logits)[kRowsOfThread][kKeysOfThread]) {
  constexpr int kStride = Tile<HeadDim>::kStride;
#pragma unroll
  for (auto& row : logits) {
#pragma unroll
    for (float& x : row) x = 0;
  }
#pragma unroll 2
  for (int x = 0; x < HeadDim; x += 4) {
    float4 k[kKeysOfThread];
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j) {
      k[j] = *reinterpret_cast<const float4*>(key.x + (lane + kLanes * j) * kStride + x);
    }
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const float4 q = *reinterpret_cast<const float4*>(query.x + (group + kGroups * r) * kStride + x);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        logits[r][j] = fmaf(q.x, k[j].x, logits[r][j]);
        logits[r][j] = fmaf(q.y, k[j].y, logits[r][j]);
        logits[r][j] = fmaf(q.z, k[j].z, logits[r][j]);
        logits[r][j] = fmaf(q.w, k[j].w, logits[r][j]);
      }
    }
  }
}

/// output[r][x] += sum_key weight[row, key] v[key, column]
template <int HeadDim>
__device__ __forceinline__ void multiply_values(const float* weights, const Tile<HeadDim>& value, int group, int lane,
                                                float (&output)[kRowsOfThread][HeadDim / kLanes]) {
  constexpr int kCount = HeadDim / kLanes;
#pragma unroll 2
  for (int key = 0; key < kKeys; key += 4) {
    float v[4][kCount];
#pragma unroll
    for (int i = 0; i < 4; ++i) Columns<HeadDim>::read(value.x + (key + i) * Tile<HeadDim>::kStride, lane, v[i]);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const float4 w = *reinterpret_cast<const float4*>(weights + (group + kGroups * r) * kWeightStride + key);
#pragma unroll
      for (int x = 0; x < kCount; ++x) {
        output[r][x] = fmaf(w.x, v[0][x], output[r][x]);
        output[r][x] = fmaf(w.y, v[1][x], output[r][x]);
        output[r][x] = fmaf(w.z, v[2][x], output[r][x]);
        output[r][x] = fmaf(w.w, v[3][x], output[r][x]);
      }
    }
  }
}

template <int HeadDim>
__global__ void __launch_bounds__(kThreads)
    attend_kernel(const __grid_constant__ AttentionParameters p, const int head_dim) {
  extern __shared__ __align__(16) char memory[];
  auto& storage = *reinterpret_cast<Storage<HeadDim>*>(memory);
  constexpr bool kShared = Storage<HeadDim>::kShared;
  constexpr int kCount = HeadDim / kLanes;
  float* weights = storage.weights();
  const int all_heads = p.heads * p.batch;
  const int row_block = p.row_blocks - 1 - static_cast<int>(blockIdx.x) / all_heads;  // long ones first
  const int index = static_cast<int>(blockIdx.x) % all_heads;
  const int head = index % p.heads;
  const int batch = index / p.heads;
  const int first_row = row_block * kRows;
  int first_tile = p.window_size > 0 ? max(0, first_row - p.window_size + 1) / kKeys : 0;
  if (p.first_tile != nullptr) {
    first_tile = max(first_tile, p.first_tile[std::int64_t{index} * p.row_blocks + row_block]);
  }
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  const int group = thread / kLanes;
  const double* gate = p.gate == nullptr ? nullptr : p.gate + std::int64_t{index} * p.length;
  const double first_gate = gate == nullptr ? 0 : gate[first_row];
  const std::int64_t key_at = batch * p.key.batch + head / p.group * p.key.head;
  const std::int64_t value_at = batch * p.value.batch + head / p.group * p.value.head;

  storage.query.load(p.query, batch * p.query.batch + head * p.query.head, first_row, p, head_dim);
  storage.key.load(p.key, key_at, row_block * kKeys, p, head_dim);
  commit();
  storage.value.load(p.value, value_at, row_block * kKeys, p, head_dim);
  commit();
  float row_term[kRowsOfThread] = {};
  const auto gate_of = [&](int position) { return gate[min(position, p.length - 1)]; };
  if (gate != nullptr) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      row_term[r] = static_cast<float>((gate_of(first_row + group + kGroups * r) - first_gate) * kLog2E);
    }
  }

  float output[kRowsOfThread][kCount] = {};
  float sum[kRowsOfThread] = {};
  float maximum[kRowsOfThread];
#pragma unroll
  for (float& x : maximum) x = -INFINITY;

  for (int tile = row_block; tile >= first_tile; --tile) {
    const int first_key = tile * kKeys;
    float key_term[kKeysOfThread] = {};
    if (gate != nullptr) {
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        key_term[j] = static_cast<float>((first_gate - gate_of(first_key + lane + kLanes * j)) * kLog2E);
      }
    }
    wait<1>();
    __syncthreads();
    float logits[kRowsOfThread][kKeysOfThread];
    multiply_keys<HeadDim>(storage.query, storage.key, group, lane, logits);
    __syncthreads();
    if (!kShared && tile > first_tile) storage.key.load(p.key, key_at, first_key - kKeys, p, head_dim);
    commit();

    const bool diagonal = tile == row_block;
    const bool masked = diagonal || (p.window_size > 0 && first_key <= first_row + kRows - 1 - p.window_size);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const int row = group + kGroups * r;
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        const int key = lane + kLanes * j;
        float term = row_term[r] + key_term[j];
        if (diagonal && gate != nullptr) {
          term = static_cast<float>((gate_of(first_row + row) - gate_of(first_key + key)) * kLog2E);
        }
        logits[r][j] = fmaf(logits[r][j], p.scale_log2, term);
        if (masked) {
          const int distance = first_row + row - first_key - key;
          if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) logits[r][j] = -INFINITY;
        }
        top = fmaxf(top, logits[r][j]);
      }
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, step));
      const float next = fmaxf(maximum[r], top);
      const float reference = next == -INFINITY ? 0.0F : next;
      const float factor = exp2_fast(maximum[r] - reference);
      maximum[r] = next;
      sum[r] *= factor;
#pragma unroll
      for (float& x : output[r]) x *= factor;
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        const float weight = exp2_fast(logits[r][j] - reference);
        sum[r] += weight;
        weights[row * kWeightStride + lane + kLanes * j] = weight;
      }
    }
    wait<1>();  // for the values
    __syncthreads();
    multiply_values<HeadDim>(weights, storage.value, group, lane, output);
    __syncthreads();
    if (tile > first_tile) {
      if (kShared) {
        storage.key.load(p.key, key_at, first_key - kKeys, p, head_dim);
        commit();
      }
      storage.value.load(p.value, value_at, first_key - kKeys, p, head_dim);
    }
    commit();
  }

#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], step);
    const int row = first_row + group + kGroups * r;
    if (row >= p.length) continue;
    const float inverse = 1.0F / sum[r];
    float* to = static_cast<float*>(p.output.data) + batch * p.output.batch + head * p.output.head + row * p.output.row;
#pragma unroll
    for (int x = 0; x < kCount; ++x) {
      const int column = Columns<HeadDim>::at(x, lane);
      if (column < head_dim) to[column] = output[r][x] * inverse;
    }
    if (p.log_normalizer != nullptr && lane == 0) {
      p.log_normalizer[std::int64_t{index} * p.length + row] = (maximum[r] + log2f(sum[r])) * 0.6931471805599453F;
    }
  }
}

template <int HeadDim>
cudaError_t launch(const AttentionParameters& p, int head_dim, cudaStream_t stream) {
  constexpr int kBytes = Storage<HeadDim>::bytes();
  auto* kernel = attend_kernel<HeadDim>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.items), kThreads, kBytes, stream>>>(p, head_dim);
  return cudaGetLastError();
}

}  // namespace foxscope::kernels::cuda::float32
