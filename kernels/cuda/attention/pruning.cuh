// Adaptive computation pruning: the first key block that a block of rows has to see. Private to kernels/cuda.
//
// All keys up to the last of block n, relative to a row i, hold at most
//   exp(|q_i| max_{j<=last} |k_j| scale + c_i - c_last + log sum_{j<=last} exp(c_last - c_j))
// and the row's softmax sum is at least exp(q_i k_i scale). Where their ratio is below the tolerance for every row of a
// block, key blocks up to n are skipped. Every term falls with n, so that there is one first block, found by a search.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {

/// Input of the search, made by measure and find_first_tiles.
struct PruningWorkspace {
  float* key_norms;  ///< [B, H_kv, key_parts] largest |k| of 64 keys
  float2* rows;      ///< [B, H, row_blocks] largest |q| scale, and the smallest of 0 and q_i k_i scale
  double* retained;  ///< [B, H, key_blocks] sum_{j in block} exp(c_last - c_j), then (where they do not fit into
                     ///< shared memory) log sum_{j<=last} exp(c_last - c_j) - c_last
  float* norms;      ///< [B, H, key_blocks] largest |k| up to the last key, where likewise
  int* first_tile;   ///< [B, H, row_blocks]
  int key_blocks;
  int key_parts;
};

/// Most rows of a block.
constexpr int kMostRows = 256;

/// Covers the rounding of norms and sums.
constexpr double kPruningSlack = 1e-3;

/// The larger norm; NaN where one is.
__device__ inline float larger(float a, float b) {
  return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b)));
}

template <class T>
__device__ const T* row_of(const TensorView& x, int batch, int head, int row) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head + row * x.row;
}

constexpr int kRowsOfWarp = 32;
constexpr int kLanesOfRow = 8;
constexpr int kRowsOfPart = 64;  // what blocks of rows and of keys are made of

/// Measures a block of rows, 32 rows a warp; eight lanes read a row. Norms are not negative, so that their bits are
/// ordered as they are, and NaN's are above all.
template <class T>
__device__ void measure_rows(const AttentionParameters& p, int head_dim, int rows, float scale,
                             const PruningWorkspace& w, int index) {
  __shared__ unsigned largest[2];
  __shared__ unsigned largest_keys[kMostRows / kRowsOfPart];
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < 2) largest[thread] = 0;
  if (thread < kMostRows / kRowsOfPart) largest_keys[thread] = 0;
  __syncthreads();
  const int batch = index / p.row_blocks / p.heads;
  const int head = index / p.row_blocks % p.heads;
  const int first = index % p.row_blocks * rows;
  const int lane = thread % 32;
  float norm = 0;
  float own = 0;  // how far the row's own logit is below 0
  float key_norm = 0;
#pragma unroll 2
  for (int r = thread / 32 * kRowsOfWarp + lane / kLanesOfRow; r < (thread / 32 + 1) * kRowsOfWarp;
       r += 32 / kLanesOfRow) {
    float qq = 0;
    float qk = 0;
    float kk = 0;
    if (first + r < p.length) {
      const T* q = row_of<T>(p.query, batch, head, first + r);
      const T* k = row_of<T>(p.key, batch, head / p.group, first + r);
      for (int x = lane % kLanesOfRow * 8; x < head_dim; x += 8 * kLanesOfRow) {
        RawChunk<T> raw[2];
        p.aligned ? raw[0].load(q + x) : raw[0].load(q + x, 8);
        p.aligned ? raw[1].load(k + x) : raw[1].load(k + x, 8);
        RowChunk a;
        RowChunk b;
        raw[0].read(a);
        raw[1].read(b);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          qq += a[i] * a[i];
          qk += a[i] * b[i];
          kk += b[i] * b[i];
        }
      }
    }
#pragma unroll
    for (int step = 1; step < kLanesOfRow; step *= 2) {
      qq += __shfl_xor_sync(0xffffffffU, qq, step);
      qk += __shfl_xor_sync(0xffffffffU, qk, step);
      kk += __shfl_xor_sync(0xffffffffU, kk, step);
    }
    norm = larger(norm, sqrtf(qq) * scale);
    own = larger(own, qk < 0 ? -qk * scale : 0.0F);
    key_norm = larger(key_norm, sqrtf(kk));
  }
#pragma unroll
  for (int step = kLanesOfRow; step < 32; step *= 2) {
    norm = larger(norm, __shfl_xor_sync(0xffffffffU, norm, step));
    own = larger(own, __shfl_xor_sync(0xffffffffU, own, step));
    key_norm = larger(key_norm, __shfl_xor_sync(0xffffffffU, key_norm, step));
  }
  if (lane == 0) {
    atomicMax(&largest[0], __float_as_uint(norm));
    atomicMax(&largest[1], __float_as_uint(own));
    atomicMax(&largest_keys[thread / kRowsOfPart], __float_as_uint(key_norm));
  }
  __syncthreads();
  if (thread == 0) w.rows[index] = make_float2(__uint_as_float(largest[0]), -__uint_as_float(largest[1]));
  const int part = first / kRowsOfPart + thread;
  if (head % p.group == 0 && thread < rows / kRowsOfPart && part < w.key_parts) {
    w.key_norms[std::int64_t{batch * p.key_heads + head / p.group} * w.key_parts + part] =
        __uint_as_float(largest_keys[thread]);
  }
}

/// Measures the gate of a key block at its last key; a warp.
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

/// Thread blocks for the blocks of rows, then warps for the gates of key blocks.
/// @param blocks  set to 0 in passing; may be null
template <class T>
__global__ void measure(const __grid_constant__ AttentionParameters p, int head_dim, TileShape tile, float scale,
                        PruningWorkspace w, AttentionBlocks* blocks) {
  const auto block = static_cast<int>(blockIdx.x);
  if (block == 0 && threadIdx.x == 0 && blocks != nullptr) *blocks = {0, 0};
  if (block < p.items) {
    measure_rows<T>(p, head_dim, tile.rows, scale, w, block);
  } else {
    const std::int64_t warp = std::int64_t{block - p.items} * (blockDim.x / 32) + threadIdx.x / 32;
    if (warp < std::int64_t{p.batch} * p.heads * w.key_blocks) measure_gates(p, tile.keys, w, warp);
  }
}

constexpr int kSearchThreads = 1024;

/// A thread block is a head. Scans its key blocks for the retained mass and the largest norm, then searches the first
/// key block of each block of rows.
static __global__ void __launch_bounds__(kSearchThreads)
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
      w.key_norms + (head / p.heads * p.key_heads + head % p.heads / p.group) * std::int64_t{w.key_parts};
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
      const int parts = tile.keys / kRowsOfPart;
      float of_block = 0;
      for (int part = 0; part < parts; ++part) {
        const int at = (first + thread) * parts + part;
        if (at < w.key_parts) of_block = larger(of_block, key_norms[at]);
      }
      norm[thread] = of_block;
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
