#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/delta_tiles.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

using namespace delta_tiles;

constexpr int kMixThreads = 128;
constexpr int kMixWarps = kMixThreads / 32;
constexpr int kHeadsOfPart = 6;
constexpr int kScoreStride = kT + kPad;
static_assert(kMixWarps * 16 == kT);

/// A thread is eight numbers.
__global__ void __launch_bounds__(kThreads) carried_gradient_kernel(const __grid_constant__ CarriedGradient a) {
  const std::int64_t pieces = a.columns / 8;
  const std::int64_t piece = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (piece >= a.batch * a.chunks * kT * a.heads * pieces) return;
  const std::int64_t row = piece / pieces;  // (b N T + t) H + h
  const std::int64_t h = row % a.heads;
  const std::int64_t t = row / a.heads % (a.chunks * kT);
  const std::int64_t b = row / a.heads / (a.chunks * kT);
  const float factor = decay(a.cumulative[(b * a.heads + h) * a.chunks * kT + t]);
  RawChunk<Bfloat16> raw;
  raw.load(static_cast<const Bfloat16*>(a.mixed_gradient) + piece * 8);
  RowChunk x;
  raw.read(x);
#pragma unroll
  for (float& number : x) number *= factor;
  store_chunk<true>(static_cast<Bfloat16*>(a.carried_gradient) + piece * 8, 8, x);
}

/// Shared memory of a head's chunk.
struct MixMemory {
  int stride;           ///< of values and gradients
  Bfloat16* values;     ///< [T, stride] v
  Bfloat16* gradients;  ///< [T, stride] dy
  Bfloat16* carried;    ///< [T, stride]
  Bfloat16* scaled;     ///< [T, stride] the gradient by what the states take up
  Bfloat16* scores;     ///< [T, kScoreStride] M
  float* of_column;     ///< [warps, T]
  float* c;             ///< [T]
  float* beta;
  float* to_end;

  __device__ MixMemory(char* memory, int columns) {
    stride = columns + kPad;
    values = reinterpret_cast<Bfloat16*>(memory);
    gradients = values + kT * stride;
    carried = gradients + kT * stride;
    scaled = carried + kT * stride;
    scores = scaled + kT * stride;
    of_column = reinterpret_cast<float*>(scores + kT * kScoreStride);
    c = of_column + kMixWarps * kT;
    beta = c + kT;
    to_end = beta + kT;
  }
  __host__ static int bytes(int columns) {
    return 2 * (4 * kT * (columns + kPad) + kT * kScoreStride) + 4 * (kMixWarps + 3) * kT;
  }
};

/// Sums over the four lanes that share a row of a tile.
__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

/// A block is a chunk of some heads, one after the other; a warp has 16 of its rows.
__global__ void __launch_bounds__(kMixThreads, 4)
    decayed_mix_gradient_kernel(const __grid_constant__ DecayedMixGradient a) {
  extern __shared__ __align__(16) char memory[];
  const auto columns = static_cast<int>(a.columns);
  const MixMemory m(memory, columns);
  const std::int64_t n = blockIdx.x;
  const std::int64_t b = blockIdx.z;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int first_row = warp * 16;
  const Lane lane;
  constexpr int kTiles = kT / 8;
  const auto* product = static_cast<const Bfloat16*>(a.product) + (b * a.chunks + n) * kT * kT;
  std::uint32_t p[kTiles][2];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      p[tile][r] = *reinterpret_cast<const std::uint32_t*>(product + (first_row + lane.row + 8 * r) * kT + 8 * tile +
                                                           lane.column);
    }
  }
  float product_sum[kTiles][4] = {};
  const std::int64_t width = a.heads * a.columns;
  const std::int64_t last_head = min(std::int64_t{blockIdx.y + 1} * kHeadsOfPart, a.heads);
  for (std::int64_t h = std::int64_t{blockIdx.y} * kHeadsOfPart; h < last_head; ++h) {
    const std::int64_t of_head = ((b * a.heads + h) * a.chunks + n) * kT;
    const std::int64_t at = (b * a.chunks + n) * kT * width + h * a.columns;  // of row 0
    const float* const from = a.value.data + b * a.value.batch_stride + h * a.value.head_stride;
    // All of a head is on its way from memory before the first of it is used.
    const int pieces = columns / 8;
    const auto copy = [&](const void* source, Bfloat16* to) {
      for (int e = thread; e < kT * pieces; e += kMixThreads) {
        const int row = e / pieces;
        const int column = e % pieces * 8;
        copy_async<16>(to + row * m.stride + column, static_cast<const Bfloat16*>(source) + at + row * width + column,
                       true);
      }
    };
    copy(a.mixed_gradient, m.gradients);
    commit();
    copy(a.carried, m.carried);
    copy(a.scaled_gradient, m.scaled);
    commit();
    constexpr int kAtOnce = 4;
    for (int first = thread; first < kT * pieces; first += kAtOnce * kMixThreads) {
      RawChunk<float> raw[kAtOnce];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        const int e = first + p * kMixThreads;
        const std::int64_t t = n * kT + e / pieces;
        raw[p].clear();
        if (e < kT * pieces && t < a.length) raw[p].load(from + t * a.value.row_stride + e % pieces * 8);
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        const int e = first + p * kMixThreads;
        if (e >= kT * pieces) break;
        RowChunk x;
        raw[p].read(x);
        store_chunk<true>(m.values + e / pieces * m.stride + e % pieces * 8, 8, x);
      }
    }
    if (thread < kT) {
      m.c[thread] = a.cumulative[of_head + thread];
      m.beta[thread] = a.beta[of_head + thread];
      m.to_end[thread] = a.to_end[of_head + thread];
    }
    wait<1>();
    __syncthreads();
    // dM of the rows of the warp, up to the diagonal.
    float entry[kTiles][4] = {};
    for (int k = 0; k < columns; k += 16) {
      std::uint32_t left[4];
      load_rows(m.gradients, m.stride, first_row, k, left);
#pragma unroll
      for (int pair = 0; pair < kTiles / 2; ++pair) {
        if (pair > warp) break;
        std::uint32_t right[4];
        load_rows(m.values, m.stride, 16 * pair, k, right);
        multiply(entry[2 * pair], left, right[0], right[2]);
        multiply(entry[2 * pair + 1], left, right[1], right[3]);
      }
    }
    float row_sum[2] = {};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float column_sum[2] = {};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = first_row + lane.row + 8 * r;
        float of_product[2];
        widen(p[tile][r], of_product[0], of_product[1]);
        float score[2];
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int j = 8 * tile + lane.column + x;
          const float between = j <= i ? decay(m.c[i] - m.c[j]) : 0.0F;
          const float gradient = entry[tile][2 * r + x] * between;
          const float of_beta = gradient * of_product[x];
          score[x] = of_product[x] * between * m.beta[j];
          product_sum[tile][2 * r + x] += gradient * m.beta[j];
          column_sum[x] += of_beta;
          row_sum[r] += of_beta * m.beta[j];
        }
        *reinterpret_cast<std::uint32_t*>(m.scores + i * kScoreStride + 8 * tile + lane.column) =
            narrow(score[0], score[1]);
      }
#pragma unroll
      for (int x = 0; x < 2; ++x) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2) column_sum[x] += __shfl_xor_sync(0xffffffffU, column_sum[x], step);
        if (lane.row == 0) m.of_column[warp * kT + 8 * tile + lane.column + x] = column_sum[x];
      }
    }
    wait<0>();
    __syncthreads();
    // Of z, by which the decays from the chunk's begin get theirs.
    float carried_sum[2] = {};
    float scaled_sum[2] = {};
    for (int column = lane.column; column < columns; column += 8) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = first_row + lane.row + 8 * r;
        float z[2];
        float dy[2];
        widen(*reinterpret_cast<const std::uint32_t*>(m.carried + row * m.stride + column), z[0], z[1]);
        widen(*reinterpret_cast<const std::uint32_t*>(m.gradients + row * m.stride + column), dy[0], dy[1]);
        carried_sum[r] += z[0] * dy[0] + z[1] * dy[1];
      }
    }
    for (int first = 0; first < columns; first += 16) {
      float sum[2][4] = {};
#pragma unroll
      for (int k = 0; k < kT; k += 16) {
        if (k < first_row) continue;  // queries before the warp's keys
        std::uint32_t left[4];
        std::uint32_t right[4];
        load_left_transposed(m.scores, kScoreStride, k, first_row, left);
        load_columns(m.gradients, m.stride, k, first, right);
        multiply(sum[0], left, right[0], right[1]);
        multiply(sum[1], left, right[2], right[3]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int row = first_row + lane.row + 8 * r;
          const int column = first + 8 * half + lane.column;
          const std::int64_t place = at + row * width + column;
          float scaled[2];
          float v[2];
          widen(*reinterpret_cast<const std::uint32_t*>(m.scaled + row * m.stride + column), scaled[0], scaled[1]);
          widen(*reinterpret_cast<const std::uint32_t*>(m.values + row * m.stride + column), v[0], v[1]);
          scaled_sum[r] += scaled[0] * v[0] + scaled[1] * v[1];
          const float factor = m.to_end[row];
          *reinterpret_cast<float2*>(a.value_gradient + place) = {fmaf(factor, scaled[0], sum[half][2 * r]),
                                                                  fmaf(factor, scaled[1], sum[half][2 * r + 1])};
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row + lane.row + 8 * r;
      const float of_rows = sum_of_four(row_sum[r]) + decay(m.c[row]) * sum_of_four(carried_sum[r]);
      const float of_end = sum_of_four(scaled_sum[r]);
      if (lane.column != 0) continue;
      float of_keys = 0;
#pragma unroll
      for (int other = 0; other < kMixWarps; ++other) of_keys += m.of_column[other * kT + row];
      a.beta_gradient[of_head + row] = of_keys;
      a.cumulative_gradient[of_head + row] = of_rows - m.beta[row] * of_keys;
      a.to_end_gradient[of_head + row] = of_end;
    }
    __syncthreads();
  }
  float* const out = a.product_parts + ((std::int64_t{blockIdx.y} * a.batch + b) * a.chunks + n) * kT * kT;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      *reinterpret_cast<float2*>(out + (first_row + lane.row + 8 * r) * kT + 8 * tile + lane.column) = {
          product_sum[tile][2 * r], product_sum[tile][2 * r + 1]};
    }
  }
}

}  // namespace

Status carried_gradient(const CarriedGradient& a, Stream stream) {
  if (!is_size(a.batch) || !is_size(a.heads) || !is_size(a.chunks) || a.columns < 8 || a.columns % 8 != 0 ||
      a.cumulative == nullptr || a.mixed_gradient == nullptr || a.carried_gradient == nullptr) {
    return Status::invalid_argument;
  }
  const std::int64_t blocks = (a.batch * a.chunks * kT * a.heads * (a.columns / 8) + kThreads - 1) / kThreads;
  if (!is_size(blocks)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  carried_gradient_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return launched();
}

std::int64_t decayed_mix_parts(const DecayedMix& a) { return (a.heads + kHeadsOfPart - 1) / kHeadsOfPart; }

Status decayed_mix_gradient(const DecayedMixGradient& a, Stream stream) {
  if (!is_size(a.batch) || a.batch >= 65536 || !is_size(a.heads) || a.groups != 1 || !is_size(a.length) ||
      a.chunks != (a.length + kT - 1) / kT || !is_size(a.chunks) || a.columns < 16 ||
      a.columns > kMostMixGradientColumns || a.columns % 16 != 0 || a.product == nullptr || a.cumulative == nullptr ||
      a.beta == nullptr || !readable(a.value) || a.carried == nullptr || a.mixed_gradient == nullptr ||
      a.to_end == nullptr || a.scaled_gradient == nullptr || !aligned_16(a.carried) || !aligned_16(a.mixed_gradient) ||
      !aligned_16(a.scaled_gradient) || a.value_gradient == nullptr || a.product_parts == nullptr ||
      a.cumulative_gradient == nullptr || a.beta_gradient == nullptr || a.to_end_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const int bytes = MixMemory::bytes(static_cast<int>(a.columns));
  const Status allowed = allow_memory(decayed_mix_gradient_kernel, bytes);
  if (allowed != Status::ok) return allowed;
  const dim3 blocks(static_cast<unsigned>(a.chunks), static_cast<unsigned>(decayed_mix_parts(a)),
                    static_cast<unsigned>(a.batch));
  decayed_mix_gradient_kernel<<<blocks, kMixThreads, bytes, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
