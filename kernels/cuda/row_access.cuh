// Eight numbers of a row at a time, in float32. Private to kernels/cuda.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace foxscope::kernels::cuda {

using Bfloat16 = __nv_bfloat16;
using RowChunk = float[8];

/// Two bfloat16 of a word, the lower half first.
__device__ __forceinline__ void widen(std::uint32_t pair, float& low, float& high) {
  low = __uint_as_float(pair << 16);
  high = __uint_as_float(pair & 0xffff0000U);
}

__device__ __forceinline__ std::uint32_t narrow(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Eight numbers as they lie in memory, so that several loads are on their way before the first is used.
template <class T>
struct RawChunk;
template <>
struct RawChunk<Bfloat16> {
  uint4 words;
  __device__ __forceinline__ void load(const Bfloat16* from) { words = *reinterpret_cast<const uint4*>(from); }
  __device__ __forceinline__ void load(const Bfloat16* from, int count) {
    std::uint32_t pairs[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) pairs[i / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(from[i])) << (16 * (i % 2));
    }
    words = {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
  /// Four numbers from either place.
  __device__ __forceinline__ void load(const Bfloat16* low, const Bfloat16* high) {
    const uint2 a = *reinterpret_cast<const uint2*>(low);
    const uint2 b = *reinterpret_cast<const uint2*>(high);
    words = {a.x, a.y, b.x, b.y};
  }
  __device__ __forceinline__ void clear() { words = {0, 0, 0, 0}; }
  __device__ __forceinline__ void read(RowChunk& x) const {
    widen(words.x, x[0], x[1]);
    widen(words.y, x[2], x[3]);
    widen(words.z, x[4], x[5]);
    widen(words.w, x[6], x[7]);
  }
};
template <>
struct RawChunk<float> {
  RowChunk numbers;
  __device__ __forceinline__ void load(const float* from) { load(from, from + 4); }
  /// Four numbers from either place.
  __device__ __forceinline__ void load(const float* low, const float* high) {
    const float4 a = *reinterpret_cast<const float4*>(low);
    const float4 b = *reinterpret_cast<const float4*>(high);
    numbers[0] = a.x, numbers[1] = a.y, numbers[2] = a.z, numbers[3] = a.w;
    numbers[4] = b.x, numbers[5] = b.y, numbers[6] = b.z, numbers[7] = b.w;
  }
  __device__ __forceinline__ void load(const float* from, int count) {
#pragma unroll
    for (int i = 0; i < 8; ++i) numbers[i] = i < count ? from[i] : 0.0F;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& x : numbers) x = 0;
  }
  __device__ __forceinline__ void read(RowChunk& x) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = numbers[i];
  }
};

/// @param count  of the numbers that exist; all eight where the chunk is aligned
template <bool Aligned, class T>
__device__ __forceinline__ void load_chunk(const T* from, int count, RawChunk<T>& raw) {
  if constexpr (Aligned) {
    raw.load(from);
  } else {
    raw.load(from, count);
  }
}

template <bool Aligned>
__device__ __forceinline__ void store_chunk(Bfloat16* to, int count, const RowChunk& x) {
  if constexpr (Aligned) {
    *reinterpret_cast<uint4*>(to) = {narrow(x[0], x[1]), narrow(x[2], x[3]), narrow(x[4], x[5]), narrow(x[6], x[7])};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) to[i] = __float2bfloat16_rn(x[i]);
    }
  }
}

template <bool Aligned>
__device__ __forceinline__ void store_chunk(float* to, int count, const RowChunk& x) {
  if constexpr (Aligned) {
    reinterpret_cast<float4*>(to)[0] = {x[0], x[1], x[2], x[3]};
    reinterpret_cast<float4*>(to)[1] = {x[4], x[5], x[6], x[7]};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) to[i] = x[i];
    }
  }
}

/// Within a few units of float32's last place; a divisor past 2^126 gives 0.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

/// Whether 16 bytes can be read at a time; null is.
inline bool aligned_16(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace foxscope::kernels::cuda
