// log sum exp of a row of logits, seen a piece at a time. Private to kernels/cuda.
#pragma once

#include <cmath>

#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {

/// sum exp(x - maximum) of what has been seen.
struct LogSum {
  float maximum = -INFINITY;
  float sum = 0;

  /// -infinity minus itself would be NaN.
  __device__ __forceinline__ float reference() const { return maximum == -INFINITY ? 0.0F : maximum; }

  template <int Count>
  __device__ __forceinline__ void add(const float (&x)[Count]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < Count; ++i) largest = fmaxf(largest, x[i]);
    if (largest > maximum) {
      sum *= exp2_fast((maximum - largest) * kLog2EFloat);
      maximum = largest;
    }
    // The difference first: a product with the reference would round at its size.
    const float from = reference();
#pragma unroll
    for (int i = 0; i < Count; ++i) sum += exp2_fast((x[i] - from) * kLog2EFloat);
  }

  __device__ __forceinline__ void merge(float other_maximum, float other_sum) {
    const float top = fmaxf(maximum, other_maximum);
    const float reference = top == -INFINITY ? 0.0F : top;
    sum = sum * exp2_fast((maximum - reference) * kLog2EFloat) +
          other_sum * exp2_fast((other_maximum - reference) * kLog2EFloat);
    maximum = top;
  }

  __device__ __forceinline__ void merge_warp() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const float other_maximum = __shfl_xor_sync(0xffffffffU, maximum, step);
      const float other_sum = __shfl_xor_sync(0xffffffffU, sum, step);
      merge(other_maximum, other_sum);
    }
  }

  /// Every thread gets the block's.
  template <int Warps>
  __device__ __forceinline__ void merge_block() {
    merge_warp();
    __shared__ float maxima[Warps];
    __shared__ float sums[Warps];
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) {
      maxima[threadIdx.x / 32] = maximum;
      sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    maximum = lane < Warps ? maxima[lane] : -INFINITY;
    sum = lane < Warps ? sums[lane] : 0.0F;
    merge_warp();
  }
};

__device__ __forceinline__ float widen_one(Bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen_one(float x) { return x; }

/// The numbers of 16 bytes.
__device__ __forceinline__ void read_words(const uint4& words, RowChunk& x, Bfloat16 /*type*/) {
  RawChunk<Bfloat16>{words}.read(x);
}
__device__ __forceinline__ void read_words(const uint4& words, float (&x)[4], float /*type*/) {
  x[0] = __uint_as_float(words.x), x[1] = __uint_as_float(words.y);
  x[2] = __uint_as_float(words.z), x[3] = __uint_as_float(words.w);
}

template <class T>
__device__ __forceinline__ void add_words(LogSum& sum, const uint4& words, T type) {
  float x[16 / sizeof(T)];
  read_words(words, x, type);
  sum.add(x);
}

}  // namespace foxscope::kernels::cuda
