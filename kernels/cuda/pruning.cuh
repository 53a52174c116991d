// Adaptive computation pruning: the first key block that a block of rows has to see. Private to kernels/cuda.
//
// All keys up to the last of block n, relative to a row i, hold at most
//   exp(|q_i| max_{j<=last} |k_j| scale + c_i - c_last + log sum_{j<=last} exp(c_last - c_j))
// and the row's softmax sum is at least exp(q_i k_i scale). Where their ratio is below the tolerance for every row of a
// block, key blocks up to n are skipped. Every term falls with n, so that there is one first block, found by a search.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/attention_parameters.cuh"
#include "kernels/cuda/forgetting_attention.h"

namespace foxscope::kernels::cuda {

/// What the search reads, made by measure and find_first_tiles.
struct PruningWorkspace {
  float* key_norms;  ///< [B, H_kv, key_blocks] largest |k| of a block
  float2* rows;      ///< [B, H, row_blocks] largest |q| scale, and the smallest of 0 and q_i k_i scale
  double* retained;  ///< [B, H, key_blocks] sum_{j in block} exp(c_last - c_j), then (where they do not fit into
                     ///< shared memory) log sum_{j<=last} exp(c_last - c_j) - c_last
  float* norms;      ///< [B, H, key_blocks] largest |k| up to the last key, where likewise
  int* first_tile;   ///< [B, H, row_blocks]
  int key_blocks;
};

/// Covers the rounding of norms and sums.
constexpr double kPruningSlack = 1e-3;

/// sum_x a[x] b[x] of two rows.
__device__ inline float dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int head_dim, bool aligned) {
  float sum = 0;
  if (aligned) {
    for (int x = 0; x < head_dim; x += 8) {
      const uint4 u = *reinterpret_cast<const uint4*>(a + x);
      const uint4 v = *reinterpret_cast<const uint4*>(b + x);
      const unsigned us[4] = {u.x, u.y, u.z, u.w};
      const unsigned vs[4] = {v.x, v.y, v.z, v.w};
      for (int i = 0; i < 4; ++i) {
        sum += __uint_as_float(us[i] << 16) * __uint_as_float(vs[i] << 16);
        sum += __uint_as_float(us[i] & 0xffff0000U) * __uint_as_float(vs[i] & 0xffff0000U);
      }
    }
  } else {
    for (int x = 0; x < head_dim; ++x) sum += __bfloat162float(a[x]) * __bfloat162float(b[x]);
  }
  return sum;
}

__device__ inline float dot(const float* a, const float* b, int head_dim, bool aligned) {
  float sum = 0;
  if (aligned) {
    for (int x = 0; x < head_dim; x += 4) {
      const float4 u = *reinterpret_cast<const float4*>(a + x);
      const float4 v = *reinterpret_cast<const float4*>(b + x);
      sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
    }
  } else {
    for (int x = 0; x < head_dim; ++x) sum += a[x] * b[x];
  }
  return sum;
}

/// The larger norm; NaN where one is.
__device__ inline float larger(float a, float b) {
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

template <class T>
__device__ const T* row_of(const TensorView& x, int batch, int head, int row) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head + row * x.row;
}

/// The largest of the block's values, in all of its threads; NaN where one is. Norms are not negative, so that their
/// bits are ordered as they are, and NaN's are above all.
__device__ inline float largest_in_block(float norm) {
  __shared__ unsigned largest;
  __syncthreads();
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  atomicMax(&largest, __float_as_uint(norm));
  __syncthreads();
  return __uint_as_float(largest);
}

/// Largest |k| of a key block, a thread a key.
template <class T>
__device__ void measure_keys(const AttentionParameters& p, int head_dim, int keys, const PruningWorkspace& w,
                             int index) {
  const int head = index / w.key_blocks;
  const auto thread = static_cast<int>(threadIdx.x);
  const int j = index % w.key_blocks * keys + thread;
  float norm = 0;
  if (thread < keys && j < p.length) {
    const auto* k = row_of<T>(p.key, head / p.key_heads, head % p.key_heads, j);
    norm = sqrtf(fabsf(dot(k, k, head_dim, p.aligned)));
  }
  norm = largest_in_block(norm);
  if (thread == 0) w.key_norms[index] = norm;
}

/// Of a block of rows, a thread a row.
template <class T>
__device__ void measure_rows(const AttentionParameters& p, int head_dim, int rows, float scale,
                             const PruningWorkspace& w, int index) {
  const int head = index / p.row_blocks;
  const auto thread = static_cast<int>(threadIdx.x);
  const int i = index % p.row_blocks * rows + thread;
  float norm = 0;
  float own = 0;  // how far the row's own logit is below 0
  if (thread < rows && i < p.length) {
    const auto* q = row_of<T>(p.query, head / p.heads, head % p.heads, i);
    const auto* k = row_of<T>(p.key, head / p.heads, head % p.heads / p.group, i);
    norm = sqrtf(fabsf(dot(q, q, head_dim, p.aligned))) * scale;
    own = -fminf(dot(q, k, head_dim, p.aligned) * scale, 0.0F);
  }
  const float largest_norm = largest_in_block(norm);
  const float largest_own = largest_in_block(own);
  if (thread == 0) w.rows[index] = make_float2(largest_norm, -largest_own);
}

/// What the gate leaves of a key block at its last key; a warp.
__device__ inline void measure_gates(const AttentionParameters& p, int keys, const PruningWorkspace& w,
                                     std::int64_t index) {
  const double* c = p.gate + index / w.key_blocks * p.length;
  const auto block = static_cast<int>(index % w.key_blocks);
  const int end = min((block + 1) * keys, p.length);
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  for (int j = block * keys + lane; j < end; j += 32) sum += expf(static_cast<float>(c[end - 1] - c[j]));
  for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  if (lane == 0) w.retained[index] = sum;
}

/// Thread blocks for the key blocks, then for the blocks of rows, then warps for the gates of key blocks.
/// @param blocks  set to 0 in passing; may be null
template <class T>
__global__ void measure(const __grid_constant__ AttentionParameters p, int head_dim, TileShape tile, float scale,
                        PruningWorkspace w, AttentionBlocks* blocks) {
  const int key_items = p.batch * p.key_heads * w.key_blocks;
  const auto block = static_cast<int>(blockIdx.x);
  if (block == 0 && threadIdx.x == 0 && blocks != nullptr) *blocks = {0, 0};
  if (block < key_items) {
    measure_keys<T>(p, head_dim, tile.keys, w, block);
  } else if (block < key_items + p.items) {
    measure_rows<T>(p, head_dim, tile.rows, scale, w, block - key_items);
  } else {
    const std::int64_t warp = std::int64_t{block - key_items - p.items} * (blockDim.x / 32) + threadIdx.x / 32;
    if (warp < std::int64_t{p.batch} * p.heads * w.key_blocks) measure_gates(p, tile.keys, w, warp);
  }
}

constexpr int kSearchThreads = 1024;

/// A thread block is a head. Scans its key blocks for the retained mass and the largest norm, then searches the first
/// key block of each block of rows.
__global__ void __launch_bounds__(kSearchThreads)
    find_first_tiles(const __grid_constant__ AttentionParameters p, TileShape tile, double log_tolerance,
                     PruningWorkspace w, AttentionBlocks* blocks) {
  __shared__ double mass[kSearchThreads];
  __shared__ double last_gate[kSearchThreads];
  __shared__ float norm[kSearchThreads];
  __shared__ unsigned long long counts[2];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t head = blockIdx.x;
  const double* c = p.gate + head * p.length;
  const float* key_norms =
      w.key_norms + (head / p.heads * p.key_heads + head % p.heads / p.group) * std::int64_t{w.key_blocks};
  if (thread < 2) counts[thread] = 0;
  const bool in_shared = w.key_blocks <= kSearchThreads;
  double carried_mass = 0;
  double carried_gate = 0;
  float carried_norm = 0;
  for (int first = 0; first < w.key_blocks; first += kSearchThreads) {
    const int count = min(kSearchThreads, w.key_blocks - first);
    if (thread < count) {
      mass[thread] = w.retained[head * w.key_blocks + first + thread];
      last_gate[thread] = c[min((first + thread + 1) * tile.keys, p.length) - 1];
      norm[thread] = key_norms[first + thread];
    }
    __syncthreads();
    if (thread == 0 && first > 0) {
      mass[0] += carried_mass * exp(last_gate[0] - carried_gate);
      norm[0] = larger(norm[0], carried_norm);
    }
    __syncthreads();
    // After the step, an entry stands for itself and the 2 step - 1 before it.
    for (int step = 1; step < count; step *= 2) {
      double sum = 0;
      float largest = 0;
      if (thread < count) {
        sum = mass[thread];
        largest = norm[thread];
        if (thread >= step) {
          sum += mass[thread - step] * exp(last_gate[thread] - last_gate[thread - step]);
          largest = larger(largest, norm[thread - step]);
        }
      }
      __syncthreads();
      if (thread < count) {
        mass[thread] = sum;
        norm[thread] = largest;
      }
      __syncthreads();
    }
    carried_mass = mass[count - 1];
    carried_gate = last_gate[count - 1];
    carried_norm = norm[count - 1];
    __syncthreads();
    if (thread < count) {
      const double retained = log(mass[thread]) - last_gate[thread];
      if (in_shared) {
        mass[thread] = retained;
      } else {
        w.retained[head * w.key_blocks + first + thread] = retained;
        w.norms[head * w.key_blocks + first + thread] = norm[thread];
      }
    }
    __syncthreads();
  }
  const double* retained = in_shared ? mass : w.retained + head * w.key_blocks;
  const float* norms = in_shared ? norm : w.norms + head * w.key_blocks;
  for (int block = thread; block < p.row_blocks; block += kSearchThreads) {
    const int first_row = block * tile.rows;
    const float2 rows = w.rows[head * p.row_blocks + block];
    const double bound = c[first_row] - rows.y + kPruningSlack - log_tolerance;
    int low = 0;  // key blocks before it are skipped
    int high = first_row / tile.keys;
    while (low < high) {
      const int middle = (low + high) / 2;
      // False for NaN, which has to reach the output.
      const bool skipped = bound + static_cast<double>(rows.x) * norms[middle] + retained[middle] <= 0;
      if (skipped) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    w.first_tile[head * p.row_blocks + block] = low;
    const int windowed = p.window_size > 0 ? max(0, first_row - p.window_size + 1) / tile.keys : 0;
    const int last = (min(first_row + tile.rows, p.length) - 1) / tile.keys;
    atomicAdd(&counts[0], static_cast<unsigned long long>(last - windowed + 1));
    atomicAdd(&counts[1], static_cast<unsigned long long>(max(0, low - windowed)));
  }
  __syncthreads();
  if (blocks != nullptr && thread == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&blocks->total), counts[0]);
    atomicAdd(reinterpret_cast<unsigned long long*>(&blocks->skipped), counts[1]);
  }
}

}  // namespace foxscope::kernels::cuda
