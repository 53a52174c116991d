// What the steps around a linear mixer's operator, forward and back, have in common. Private to kernels/cuda/linear.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/linear/linear_steps.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda::output_rows {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kPieces = 4;          // of four numbers, of a thread
inline constexpr int kMostHeadDim = 1024;  // of unit heads
inline constexpr int kHeadPieces = kMostHeadDim / 128;
inline constexpr int kMostWidth = kThreads * kPieces * 4;
inline constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

__device__ __forceinline__ float squares(const float4& x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

__device__ __forceinline__ float4 load_four(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ __forceinline__ void scale(float4& x, float factor) {
  x.x *= factor;
  x.y *= factor;
  x.z *= factor;
  x.w *= factor;
}

__device__ __forceinline__ void apply_silu(float4& x, const float4& z) {
  x.x *= z.x * sigmoid(z.x);
  x.y *= z.y * sigmoid(z.y);
  x.z *= z.z * sigmoid(z.z);
  x.w *= z.w * sigmoid(z.w);
}

__device__ __forceinline__ float4 load_four(const Bfloat16* from) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  float4 x;
  widen(words.x, x.x, x.y);
  widen(words.y, x.z, x.w);
  return x;
}

/// y, with its skip and a gate before the norm.
template <class T>
__device__ __forceinline__ float4 load_output(const LinearOutput& a, std::int64_t b, std::int64_t t, int column) {
  const std::int64_t h = column / a.head_dim;
  const std::int64_t in_head = column % a.head_dim;
  float4 x =
      load_four(static_cast<const T*>(a.y) + b * a.batch_stride + h * a.head_stride + t * a.row_stride + in_head);
  if (a.value != nullptr) {
    const float4 v =
        load_four(a.value + b * a.value_batch_stride + h * a.value_head_stride + t * a.value_row_stride + in_head);
    float4 factor;
    if (a.skip_by_channel) {
      factor = load_four(a.skip + column);
    } else {
      factor.x = factor.y = factor.z = factor.w = a.skip[h];
    }
    x.x += factor.x * v.x;
    x.y += factor.y * v.y;
    x.z += factor.z * v.z;
    x.w += factor.w * v.w;
  }
  return x;
}

inline bool all_fours(std::initializer_list<std::int64_t> strides) {
  for (const std::int64_t stride : strides) {
    if (stride % 4 != 0) return false;
  }
  return true;
}

inline bool is_valid(const UnitHeads& a) {
  return a.batch >= 1 && a.length >= 1 && a.heads >= 1 && a.head_dim >= 4 && a.head_dim <= kMostHeadDim &&
         all_fours({a.head_dim, a.batch_stride, a.row_stride}) && a.row_stride >= a.heads * a.head_dim &&
         a.epsilon >= 0 && a.x != nullptr && aligned_16(a.x);
}

inline bool is_valid(const LinearOutput& a) {
  if (a.batch < 1 || a.length < 1 || a.heads < 1 || a.head_dim < 4 || a.batch * a.length >= kMostBlocks ||
      a.heads * a.head_dim > kMostWidth || a.y == nullptr || !aligned_16(a.y) ||
      !all_fours({a.head_dim, a.batch_stride, a.head_stride, a.row_stride, a.value_batch_stride, a.value_head_stride,
                  a.value_row_stride, a.gate_batch_stride, a.gate_row_stride, a.norm_size})) {
    return false;
  }
  if (a.value != nullptr && (!aligned_16(a.value) || a.skip == nullptr || !aligned_16(a.skip))) return false;
  if (a.gate != nullptr && !aligned_16(a.gate)) return false;
  return a.norm_size == 0 || (a.norm_size > 0 && a.heads * a.head_dim % a.norm_size == 0 && a.norm != nullptr &&
                              aligned_16(a.norm) && a.epsilon >= 0);
}

}  // namespace foxscope::kernels::cuda::output_rows
