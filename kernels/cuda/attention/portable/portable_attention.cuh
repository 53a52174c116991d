// Forgetting attention for every card since compute capability 8.0: mma.sync, running maximum. Private to kernels/cuda.
//
// The gate is one more slice of 16 in Q K^T, as on Hopper (hopper_attention.cuh); its fragments come straight from
// global memory, eight keys of 16 bytes a warp.
//
// Up to d = 128 queries stay in registers, and the next tile of keys and values is copied beside the one at hand. Wider
// heads leave the registers to the output: their queries stay in shared memory, which holds one tile of keys and one of
// values, each copied while the other is at work.
#pragma once

#include <cstdint>
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/util.hpp>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::portable {

constexpr int kRows = kPortableTile.rows;  // of a thread block, 16 a warp
constexpr int kKeys = kPortableTile.keys;
constexpr int kThreads = 128;

__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Rows of a tile in shared memory, with 16 bytes between them so that eight rows lie in different banks.
template <int HeadDim>
struct Tile {
  static constexpr int kStride = HeadDim + 8;
  std::uint16_t x[kKeys * kStride];

  /// Starts copying rows [first, first + kKeys); zeros from `length` on.
  __device__ void load(const TensorView& from, std::int64_t offset, int first, int length, bool aligned) {
    const auto* source = static_cast<const std::uint16_t*>(from.data) + offset;
    constexpr int kChunks = HeadDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kKeys * kChunks; i += kThreads) {
      const int row = i / kChunks;
      const int column = i % kChunks * 8;
      std::uint16_t* to = x + row * kStride + column;
      const bool inside = first + row < length;
      const std::uint16_t* at = source + (inside ? first + row : 0) * from.row + column;
      if (aligned) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(cute::cast_smem_ptr_to_uint(to)), "l"(at),
                     "r"(inside ? 16 : 0)
                     : "memory");
      } else {
        for (int j = 0; j < 8; ++j) to[j] = inside ? at[j] : std::uint16_t{0};
      }
    }
  }

  /// Four 8x8 matrices: rows row..row+15, columns column..column+15.
  template <class Copy>
  __device__ void fragment(int row, int column, std::uint32_t (&f)[4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint16_t* at = x + (row + lane % 16) * kStride + column + lane / 16 * 8;
    Copy::copy(*reinterpret_cast<const cute::uint128_t*>(at), f[0], f[1], f[2], f[3]);
  }
};

template <int HeadDim>
constexpr bool kWide = HeadDim > 128;

template <int HeadDim, bool Wide = kWide<HeadDim>>
struct Storage {
  Tile<HeadDim> key[2];
  Tile<HeadDim> value[2];
  __device__ Tile<HeadDim>& query() { return key[1]; }
};
template <int HeadDim>
struct Storage<HeadDim, true> {
  Tile<HeadDim> key[1];
  Tile<HeadDim> value[1];
  Tile<HeadDim> own;
  __device__ Tile<HeadDim>& query() { return own; }
};

template <int HeadDim>
__global__ void __launch_bounds__(kThreads) attend_kernel(const __grid_constant__ AttentionParameters p) {
  extern __shared__ __align__(16) char memory[];
  auto& storage = *reinterpret_cast<Storage<HeadDim>*>(memory);
  const int all_heads = p.heads * p.batch;
  const int row_block = p.row_blocks - 1 - static_cast<int>(blockIdx.x) / all_heads;  // long ones first
  const int index = static_cast<int>(blockIdx.x) % all_heads;
  const int head = index % p.heads;
  const int batch = index / p.heads;
  const int first_row = row_block * kRows;
  const int last_tile = (min(first_row + kRows, p.length) - 1) / kKeys;
  int first_tile = p.window_size > 0 ? max(0, first_row - p.window_size + 1) / kKeys : 0;
  if (p.first_tile != nullptr) {
    first_tile = max(first_tile, p.first_tile[std::int64_t{index} * p.row_blocks + row_block]);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int row = first_row + warp_row + lane / 4;
  const double* gate = p.gate == nullptr ? nullptr : p.gate + std::int64_t{index} * p.length;
  const double reference_gate = gate == nullptr ? 0 : gate[first_row];
  const auto* bias = static_cast<const std::uint32_t*>(p.bias) + std::int64_t{index} * p.bias_length * 4;
  const std::int64_t key_at = batch * p.key.batch + head / p.group * p.key.head;
  const std::int64_t value_at = batch * p.value.batch + head / p.group * p.value.head;

  storage.query().load(p.query, batch * p.query.batch + head * p.query.head, first_row, p.length, p.aligned);
  commit();
  storage.key[0].load(p.key, key_at, last_tile * kKeys, p.length, p.aligned);
  if constexpr (kWide<HeadDim>) commit();
  storage.value[0].load(p.value, value_at, last_tile * kKeys, p.length, p.aligned);
  commit();
  std::uint32_t query[kWide<HeadDim> ? 1 : HeadDim / 16][4];
  if constexpr (!kWide<HeadDim>) {
    wait<1>();
    __syncthreads();
#pragma unroll
    for (int x = 0; x < HeadDim / 16; ++x) {
      storage.query().template fragment<cute::SM75_U32x4_LDSM_N>(warp_row, 16 * x, query[x]);
    }
    __syncthreads();
  }
  // Columns 0, 1, 2 of Q's slice are 1, the others 0.
  const std::uint32_t one = lane % 4 == 0 ? 0x3f803f80U : lane % 4 == 1 ? 0x3f80U : 0U;
  const std::uint32_t ones[4] = {one, one, 0, 0};

  float output[HeadDim / 8][4] = {};
  float sum[2] = {0, 0};
  float maximum[2] = {-INFINITY, -INFINITY};
  for (int tile = last_tile; tile >= first_tile; --tile) {
    const int now = kWide<HeadDim> ? 0 : (last_tile - tile) & 1;
    if constexpr (!kWide<HeadDim>) {
      if (tile > first_tile) {
        storage.key[now ^ 1].load(p.key, key_at, (tile - 1) * kKeys, p.length, p.aligned);
        storage.value[now ^ 1].load(p.value, value_at, (tile - 1) * kKeys, p.length, p.aligned);
      }
      commit();
    }
    const int first_key = tile * kKeys;
    std::uint32_t biases[kKeys / 8];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) biases[n] = bias[(first_key + 8 * n + lane / 4) * 4 + lane % 4];
    const float term = gate == nullptr
                           ? 0.0F
                           : static_cast<float>((reference_gate - gate[min(first_key + kKeys, p.length) - 1]) * kLog2E);
    wait<1>();
    __syncthreads();

    float logits[kKeys / 8][4] = {};
#pragma unroll
    for (int x = 0; x < HeadDim / 16; ++x) {
      auto& rows = query[kWide<HeadDim> ? 0 : x];
      if constexpr (kWide<HeadDim>) {
        storage.query().template fragment<cute::SM75_U32x4_LDSM_N>(warp_row, 16 * x, rows);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        std::uint32_t f[4];
        storage.key[now].template fragment<cute::SM75_U32x4_LDSM_N>(16 * n, 16 * x, f);
        multiply(logits[2 * n], rows, f[0], f[2]);
        multiply(logits[2 * n + 1], rows, f[1], f[3]);
      }
    }
    if constexpr (kWide<HeadDim>) {
      __syncthreads();
      if (tile > first_tile) storage.key[0].load(p.key, key_at, (tile - 1) * kKeys, p.length, p.aligned);
      commit();
    }
    // Relative to each row's own gate (kMostSliceFall).
    const bool far = tile == row_block && !(term <= kMostSliceFall);
    double gates[2] = {0, 0};
    if (far) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const double own = gate[min(row + 8 * r, p.length - 1)];
        gates[r] = (reference_gate - own) * kLog2E;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int x = 0; x < 2; ++x) {
            const double of_key = gate[min(first_key + 8 * n + lane % 4 * 2 + x, p.length - 1)];
            logits[n][2 * r + x] += static_cast<float>((own - of_key) * p.gate_to_logit);
          }
        }
      }
    } else {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) multiply(logits[n], ones, biases[n], 0U);
    }

    const bool masked =
        first_key + kKeys - 1 > first_row || (p.window_size > 0 && first_key <= first_row + kRows - 1 - p.window_size);
    if (masked) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int distance = row + x / 2 * 8 - (first_key + 8 * n + lane % 4 * 2 + x % 2);
          if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) logits[n][x] = -INFINITY;
        }
      }
    }
    float shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) top = fmaxf(top, fmaxf(logits[n][2 * r], logits[n][2 * r + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 2));
      float largest = top * p.scale_log2 + term;
      if (far) largest = static_cast<float>(static_cast<double>(top * p.scale_log2) + gates[r]);
      const float next = fmaxf(maximum[r], largest);
      const float reference = next == -INFINITY ? 0.0F : next;  // of rows that have seen no key yet
      const float factor = exp2_fast(maximum[r] - reference);
      maximum[r] = next;
      shift[r] = far ? static_cast<float>(gates[r] - static_cast<double>(reference)) : term - reference;
      sum[r] *= factor;
#pragma unroll
      for (int x = 0; x < HeadDim / 8; ++x) {
        output[x][2 * r] *= factor;
        output[x][2 * r + 1] *= factor;
      }
    }
    if constexpr (kWide<HeadDim>) {
      wait<1>();
      __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      std::uint32_t weights[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* s = &logits[2 * n + i / 2][i % 2 * 2];
        const float a = exp2_fast(fmaf(s[0], p.scale_log2, shift[i % 2]));
        const float b = exp2_fast(fmaf(s[1], p.scale_log2, shift[i % 2]));
        sum[i % 2] += a + b;
        weights[i] = pack(a, b);
      }
#pragma unroll
      for (int x = 0; x < HeadDim / 16; ++x) {
        std::uint32_t f[4];
        storage.value[now].template fragment<cute::SM75_U16x8_LDSM_T>(16 * n, 16 * x, f);
        multiply(output[2 * x], weights, f[0], f[1]);
        multiply(output[2 * x + 1], weights, f[2], f[3]);
      }
    }
    __syncthreads();
    if constexpr (kWide<HeadDim>) {
      if (tile > first_tile) storage.value[0].load(p.value, value_at, (tile - 1) * kKeys, p.length, p.aligned);
      commit();
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 1);
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 2);
    const int at = row + 8 * r;
    if (at >= p.length) continue;
    const float inverse = 1.0F / sum[r];
    auto* to = static_cast<std::uint16_t*>(p.output.data) + batch * p.output.batch + head * p.output.head +
               at * p.output.row + lane % 4 * 2;
#pragma unroll
    for (int x = 0; x < HeadDim / 8; ++x) {
      const std::uint32_t pair = pack(output[x][2 * r] * inverse, output[x][2 * r + 1] * inverse);
      if (p.aligned) {
        *reinterpret_cast<std::uint32_t*>(to + 8 * x) = pair;
      } else {
        to[8 * x] = static_cast<std::uint16_t>(pair);
        to[8 * x + 1] = static_cast<std::uint16_t>(pair >> 16);
      }
    }
    if (p.log_normalizer != nullptr && lane % 4 == 0) {
      const double rest = gate == nullptr ? 0 : gate[at] - reference_gate;
      p.log_normalizer[std::int64_t{index} * p.length + at] = static_cast<float>(
          (static_cast<double>(maximum[r]) + static_cast<double>(log2f(sum[r]))) * 0.6931471805599453 + rest);
    }
  }
}

template <int HeadDim>
cudaError_t launch(const AttentionParameters& p, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Storage<HeadDim>));
  auto* kernel = attend_kernel<HeadDim>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.items), kThreads, kBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace foxscope::kernels::cuda::portable
