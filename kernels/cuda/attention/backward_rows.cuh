// The passes over rows before and after the products of attention's backward. Private to kernels/cuda.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {

constexpr int kRowThreads = 256;

/// Statistics of 64 rows, a thread block; eight lanes read a row. Clears their sums for dQ in passing.
/// @tparam T        of the tensors
/// @param head_dim  a multiple of 8
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    prepare_rows(const __grid_constant__ BackwardParameters p, int head_dim) {
  constexpr int kLanes = 8;
  const auto part = static_cast<int>(blockIdx.x) % p.row_parts;
  const auto head = static_cast<int>(blockIdx.x) / p.row_parts;
  const int first = part * kStatisticsRows;
  const auto thread = static_cast<int>(threadIdx.x);
  const double* gate = p.gate == nullptr ? nullptr : p.gate + std::int64_t{head} * p.length;
  const double first_gate = gate == nullptr ? 0 : gate[min(first, p.length - 1)];
  RowStatistics& statistics = p.statistics[blockIdx.x];
  if (thread == 0) statistics.first_gate = first_gate;
  if (p.sums != nullptr) {
    const int count = kStatisticsRows / kSumRows * sum_piece(head_dim);
    auto* sums = reinterpret_cast<float4*>(p.sums + std::int64_t{blockIdx.x} * count);
    for (int i = thread; i < count / 4; i += kRowThreads) sums[i] = {0, 0, 0, 0};
  }
  const auto at = [&](const TensorView& x, int row) {
    return static_cast<const T*>(x.data) + head / p.heads * x.batch + head % p.heads * x.head + row * x.row;
  };
  constexpr int kOwnRows = kStatisticsRows / (kRowThreads / kLanes);
  float deltas[kOwnRows] = {};
  for (int x = thread % kLanes * 8; x < head_dim; x += 8 * kLanes) {
    RawChunk<T> raw[kOwnRows][2];  // all on their way at once
#pragma unroll
    for (int n = 0; n < kOwnRows; ++n) {
      const int row = min(first + thread / kLanes + n * (kRowThreads / kLanes), p.length - 1);
      const T* output = at(p.output, row) + x;
      const T* gradient = at(p.output_gradient, row) + x;
      p.aligned ? raw[n][0].load(output) : raw[n][0].load(output, 8);
      p.aligned ? raw[n][1].load(gradient) : raw[n][1].load(gradient, 8);
    }
#pragma unroll
    for (int n = 0; n < kOwnRows; ++n) {
      RowChunk a;
      RowChunk b;
      raw[n][0].read(a);
      raw[n][1].read(b);
#pragma unroll
      for (int i = 0; i < 8; ++i) deltas[n] += a[i] * b[i];
    }
  }
#pragma unroll
  for (int n = 0; n < kOwnRows; ++n) {
    const int r = thread / kLanes + n * (kRowThreads / kLanes);
    const int row = first + r;
    float delta = deltas[n];
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) delta += __shfl_xor_sync(0xffffffffU, delta, step);
    if (thread % kLanes != 0) continue;
    float term = -INFINITY;
    float rest = 0;
    if (row < p.length) {
      const double fall = gate == nullptr ? 0 : gate[row] - first_gate;
      const auto normalizer = static_cast<double>(p.log_normalizer[std::int64_t{head} * p.length + row]);
      const double exact = (fall - normalizer) * kLog2E;
      term = static_cast<float>(exact);
      rest = static_cast<float>(exact - static_cast<double>(term));
    }
    statistics.term[r] = term;
    statistics.delta[r] = row < p.length ? delta : 0;
    statistics.rest[r] = rest;
  }
}

/// dQ from its sums: a warp a piece of 16 rows.
template <bool Aligned>
__global__ void __launch_bounds__(kRowThreads) finish_rows(const __grid_constant__ BackwardParameters p, int head_dim) {
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int pieces = p.row_parts * (kStatisticsRows / kSumRows);
  const std::int64_t piece = std::int64_t{blockIdx.x} * (kRowThreads / 32) + warp;
  if (piece >= std::int64_t{p.batch} * p.heads * pieces) return;
  const auto head = static_cast<int>(piece / pieces);
  const int row = static_cast<int>(piece % pieces) * kSumRows + lane / 4;
  const auto* sums = reinterpret_cast<const float4*>(p.sums + piece * sum_piece(head_dim));
  auto* to = static_cast<Bfloat16*>(p.query_gradient.data) + head / p.heads * p.query_gradient.batch +
             head % p.heads * p.query_gradient.head;
  // Four times eight columns at a time, of which each lane of a row stores eight.
#pragma unroll 2
  for (int first = 0; first < head_dim / 8; first += 4) {
    float4 sum[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < head_dim / 8) sum[i] = sums[(first + i) * 32 + lane];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[i] =
            r == 0 ? narrow(sum[i].x * p.scale, sum[i].y * p.scale) : narrow(sum[i].z * p.scale, sum[i].w * p.scale);
      }
      transpose_quad(pairs);
      const int eight = first + lane % 4;
      if (row + 8 * r >= p.length || eight >= head_dim / 8) continue;
      Bfloat16* at = to + (row + 8 * r) * p.query_gradient.row + 8 * eight;
      if constexpr (Aligned) {
        *reinterpret_cast<uint4*>(at) = {pairs[0], pairs[1], pairs[2], pairs[3]};
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
          at[i] = __ushort_as_bfloat16(static_cast<unsigned short>(pairs[i / 2] >> i % 2 * 16));
      }
    }
  }
}

constexpr int kScanThreads = 1024;

/// d log f_t = sum over i >= t of (sum of row i - sum of column i), a thread block a head, in float64.
/// @param head_dim  of the pieces of sums; in float32 row sums lie by themselves
static __global__ void __launch_bounds__(kScanThreads)
    scan_gate_gradient(const __grid_constant__ BackwardParameters p, int head_dim, float* log_gate_gradient) {
  __shared__ double warps[kScanThreads / 32];
  const std::int64_t head = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::int64_t pieces = std::int64_t{p.row_parts} * (kStatisticsRows / kSumRows);
  double after = 0;  // of what has been done
  for (int end = p.length; end > 0; end -= kScanThreads) {
    const int t = end - 1 - thread;
    double sum = 0;
    if (t >= 0) {
      const float* rows = p.row_sums == nullptr ? p.sums + (head * pieces + t / kSumRows) * sum_piece(head_dim) +
                                                      kSumRows * head_dim + t % kSumRows
                                                : p.row_sums + head * p.length + t;
      sum = static_cast<double>(*rows) - static_cast<double>(p.column_sums[head * p.length + t]);
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const double other = __shfl_up_sync(0xffffffffU, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) warps[thread / 32] = sum;
    __syncthreads();
    double before = after;
    for (int w = 0; w < kScanThreads / 32; ++w) {
      if (w < thread / 32) before += warps[w];
      after += warps[w];
    }
    if (t >= 0) log_gate_gradient[head * p.length + t] = static_cast<float>(before + sum);
    __syncthreads();
  }
}

}  // namespace foxscope::kernels::cuda
