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
inline constexpr int kMostOutputThreads = 1024;  // each has four columns of a position
inline constexpr int kMostHeadDim = 1024;        // of unit heads
inline constexpr int kHeadPieces = kMostHeadDim / 128;
inline constexpr int kMostWidth = kMostOutputThreads * 4;
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

/// Four numbers as they lie in memory.
template <class T>
struct RawFour;
template <>
struct RawFour<float> {
  using Type = float4;
};
template <>
struct RawFour<Bfloat16> {
  using Type = uint2;
};

template <class T>
__device__ __forceinline__ typename RawFour<T>::Type load_raw(const T* from) {
  return *reinterpret_cast<const typename RawFour<T>::Type*>(from);
}

__device__ __forceinline__ float4 four_of(const float4& x) { return x; }
__device__ __forceinline__ float4 four_of(const uint2& words) {
  float4 x;
  widen(words.x, x.x, x.y);
  widen(words.y, x.z, x.w);
  return x;
}

__device__ __forceinline__ float4 add(const float4& x, const float4& y) {
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

__device__ __forceinline__ float4 times(const float4& x, const float4& y) {
  return {x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w};
}

__device__ __forceinline__ float4 times(const float4& x, float y) { return {x.x * y, x.y * y, x.z * y, x.w * y}; }

/// A thread's part of a position: y, v and z of its four columns.
template <class T, class Gate>
struct OutputFour {
  typename RawFour<T>::Type y;
  typename RawFour<Gate>::Type z;
  float4 v;
};

/// A thread's four columns, which are of one head, of one position after the other. Divisions are made once, not for
/// each position.
template <class T, class Gate>
struct OutputColumns {
  const T* y;      ///< of the position at hand, as the others
  const Gate* z;   ///< null: no gate
  const float* v;  ///< null: no skip
  int b;           ///< the position at hand, as t
  int t;
  float4 skip{};    ///< D
  int of_head = 0;  ///< the first column within its head
  int head = 0;
  bool active;  ///< they are within a position

  /// @param row  b L + t
  __device__ __forceinline__ OutputColumns(const LinearOutput& a, int column, int row)
      : b(row / static_cast<int>(a.length)),
        t(row % static_cast<int>(a.length)),
        active(column < static_cast<int>(a.heads * a.head_dim)) {
    const auto dim = static_cast<int>(a.head_dim);
    if (active) {
      head = column / dim;
      of_head = column % dim;
    }
    y = static_cast<const T*>(a.y) + b * a.batch_stride + t * a.row_stride + head * a.head_stride + of_head;
    z = nullptr;
    v = nullptr;
    if (a.gate != nullptr) {
      z = static_cast<const Gate*>(a.gate) + b * a.gate_batch_stride + t * a.gate_row_stride + column;
    }
    if (a.value != nullptr) {
      v = a.value + b * a.value_batch_stride + t * a.value_row_stride + head * a.value_head_stride + of_head;
    }
    if (v == nullptr || !active) return;
    if (a.skip_by_channel) {
      skip = load_four(a.skip + column);
    } else {
      skip.x = skip.y = skip.z = skip.w = a.skip[head];
    }
  }

  /// Goes on to the next position.
  __device__ __forceinline__ void step(const LinearOutput& a) {
    std::int64_t y_step = a.row_stride;
    std::int64_t z_step = a.gate_row_stride;
    std::int64_t v_step = a.value_row_stride;
    if (++t == a.length) {
      y_step = a.batch_stride - (a.length - 1) * a.row_stride;
      z_step = a.gate_batch_stride - (a.length - 1) * a.gate_row_stride;
      v_step = a.value_batch_stride - (a.length - 1) * a.value_row_stride;
      t = 0;
      ++b;
    }
    y += y_step;
    if (z != nullptr) z += z_step;
    if (v != nullptr) v += v_step;
  }

  __device__ __forceinline__ OutputFour<T, Gate> load() const {
    OutputFour<T, Gate> four{};
    if (!active) return four;
    four.y = load_raw(y);
    if (z != nullptr) four.z = load_raw(z);
    if (v != nullptr) four.v = load_four(v);
    return four;
  }

  /// y + D v
  __device__ __forceinline__ float4 output(const OutputFour<T, Gate>& four) const {
    const float4 x = four_of(four.y);
    return v != nullptr ? add(x, times(skip, four.v)) : x;
  }
};

/// Sums over the columns of each norm, which all threads of a norm get; the block waits once, or not at all where a
/// norm is a warp's.
/// @param x        what a thread adds to each sum
/// @param of_norm  threads of a norm
/// @param shared   [kSums, kMostOutputThreads], other memory than at the call before
template <int kSums>
__device__ __forceinline__ void sum_of_norms(float (&x)[kSums], int of_norm, bool active, float* shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (of_norm % 32 != 0) {
#pragma unroll
    for (int n = 0; n < kSums; ++n) shared[n * kMostOutputThreads + thread] = x[n];
    __syncthreads();
    if (!active) return;
    const int first = thread / of_norm * of_norm;
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
      x[n] = 0;
      for (int e = 0; e < of_norm; ++e) x[n] += shared[n * kMostOutputThreads + first + e];
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < kSums; ++n) x[n] = sum_of_warp(x[n]);
  if (of_norm == 32) return;
  const int warps = of_norm / 32;
  if (thread % 32 == 0) {
#pragma unroll
    for (int n = 0; n < kSums; ++n) shared[n * kMostOutputThreads + thread / 32] = x[n];
  }
  __syncthreads();
  const int entry = thread / of_norm * warps + thread % 32;
#pragma unroll
  for (int n = 0; n < kSums; ++n) {
    x[n] = sum_of_warp(thread % 32 < warps ? shared[n * kMostOutputThreads + entry] : 0.0F);
  }
}

/// Threads of a block whose threads have four columns each.
inline unsigned output_threads(const LinearOutput& a) {
  return static_cast<unsigned>((a.heads * a.head_dim / 4 + 31) / 32 * 32);
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
