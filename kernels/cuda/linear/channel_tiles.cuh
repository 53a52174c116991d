// What the kernels of decays a channel, forward and back, have in common: a chunk in shared memory, in four bands of 16
// positions. Private to kernels/cuda/linear.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/linear/delta_tiles.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda::channel_tiles {

using namespace delta_tiles;

inline constexpr int kMostChannels = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kBand = kT / kBands;  // rows of a chunk whose pairs are made one by one

/// Where a block's chunk lies.
struct ChannelPlace {
  std::int64_t n;     ///< of its head
  std::int64_t head;  ///< b H + h
  std::int64_t b;
  std::int64_t h;
  int rows;  ///< that are positions

  __device__ explicit ChannelPlace(const ChannelChunks& a) {
    const std::int64_t chunks = (a.length + kT - 1) / kT;
    n = blockIdx.x % chunks;
    head = blockIdx.x / chunks;
    b = head / a.heads;
    h = head % a.heads;
    rows = static_cast<int>(min(std::int64_t{kT}, a.length - n * kT));
  }
};

/// q, k and c of a chunk in shared memory.
struct ChannelMemory {
  static constexpr int kGap = 4;  // between rows, which begin at multiples of 16 bytes
  int width;
  int stride;
  float* q;
  float* k;
  float* c;

  __device__ ChannelMemory(float* memory, int columns) : width(columns), stride(columns + kGap) {
    q = memory;
    k = q + kT * stride;
    c = k + kT * stride;
  }
  __host__ static int bytes(std::int64_t width) {
    return static_cast<int>(3 * kT * (width + kGap) * static_cast<std::int64_t>(sizeof(float)));
  }
};

/// Fills a chunk's memory, with zeros behind the last position. Copies that were started before are waited for.
/// @param kept  [d] exp(c_T); null: not made
__device__ __forceinline__ void load_chunk(const ChannelChunks& a, const ChannelPlace& at, const ChannelMemory& m,
                                           float* kept) {
  const int width = m.width;
  const int rows = at.rows;
  const auto thread = static_cast<int>(threadIdx.x);
  const int pieces = width / 4;
  const auto copy = [&](const HeadRows& x, float* to) {
    const float* const from = rows_of(x, at.b, at.h, at.n * kT);
    for (int e = thread; e < kT * pieces; e += kThreads) {
      const int row = e / pieces;
      const int column = e % pieces * 4;
      copy_async<16>(to + row * m.stride + column, from + row * x.row_stride + column, row < rows);
    }
  };
  copy(a.query, m.q);
  copy(a.key, m.k);
  commit();
  // c: a thread has a channel of a band; what the bands before sum up to waits where c will be.
  const double* const log_decay =
      a.log_decay + at.b * a.decay_batch_stride + at.h * a.decay_head_stride + at.n * kT * a.decay_row_stride;
  constexpr int kMostTasks = kBands * kMostChannels / kThreads;
  auto* const totals = reinterpret_cast<double*>(m.c);  // [bands, width]
  double before[kMostTasks];
  const auto read = [&](int task, double(&x)[kBand]) {
    const double* const from = log_decay + task / width * kBand * a.decay_row_stride + task % width;
#pragma unroll
    for (int row = 0; row < kBand; ++row) {
      x[row] = task / width * kBand + row < rows ? from[row * a.decay_row_stride] : 0.0;
    }
  };
#pragma unroll 1
  for (int task = thread; task < kBands * width; task += kThreads) {
    double x[kBand];
    read(task, x);
    double sum = 0;
#pragma unroll
    for (int row = 0; row < kBand; ++row) sum += x[row];
    totals[task] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kMostTasks; ++p) {
    const int task = p * kThreads + thread;
    before[p] = 0;
    if (task >= kBands * width) break;
    for (int band = 0; band < task / width; ++band) before[p] += totals[band * width + task % width];
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kMostTasks; ++p) {
    const int task = p * kThreads + thread;
    if (task >= kBands * width) break;
    double x[kBand];
    read(task, x);
    double sum = before[p];
#pragma unroll
    for (int row = 0; row < kBand; ++row) {
      sum += x[row];
      m.c[(task / width * kBand + row) * m.stride + task % width] = static_cast<float>(sum);
    }
    if (kept != nullptr && task / width == kBands - 1) kept[task % width] = decay(static_cast<float>(sum));
  }
  wait<0>();
  __syncthreads();
}

}  // namespace foxscope::kernels::cuda::channel_tiles
