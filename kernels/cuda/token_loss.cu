#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/token_loss.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;  // of 16 bytes, on their way at once
constexpr float kLog2E = 1.4426950408889634F;
constexpr std::int64_t kMost = std::int64_t{1} << 30;

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

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
      sum *= exp2_fast((maximum - largest) * kLog2E);
      maximum = largest;
    }
    // The difference first: a product with the reference would round at its size.
    const float from = reference();
#pragma unroll
    for (int i = 0; i < Count; ++i) sum += exp2_fast((x[i] - from) * kLog2E);
  }

  __device__ __forceinline__ void merge(float other_maximum, float other_sum) {
    const float top = fmaxf(maximum, other_maximum);
    const float reference = top == -INFINITY ? 0.0F : top;
    sum = sum * exp2_fast((maximum - reference) * kLog2E) + other_sum * exp2_fast((other_maximum - reference) * kLog2E);
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
};

__device__ __forceinline__ float widen_one(Bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen_one(float x) { return x; }

__device__ __forceinline__ void add_words(LogSum& sum, const uint4& words, Bfloat16 /*type*/) {
  RowChunk x;
  RawChunk<Bfloat16>{words}.read(x);
  sum.add(x);
}
__device__ __forceinline__ void add_words(LogSum& sum, const uint4& words, float /*type*/) {
  const float x[4] = {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                      __uint_as_float(words.w)};
  sum.add(x);
}

/// A block is a row. What lies before the first multiple of 16 bytes and after the last is read by itself.
template <class T>
__global__ void __launch_bounds__(kThreads) token_loss_kernel(const __grid_constant__ TokenLoss a) {
  constexpr int kCount = 16 / sizeof(T);
  const std::int64_t row = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto vocabulary = static_cast<int>(a.vocabulary);
  const T* logits = static_cast<const T*>(a.logits) + row * a.logits_stride;
  const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(logits) % 16 / sizeof(T));
  const int head = min((kCount - past) % kCount, vocabulary);
  const int chunks = (vocabulary - head) / kCount;
  const int rest = vocabulary - head - chunks * kCount;
  const auto* body = reinterpret_cast<const uint4*>(logits + head);
  LogSum sum;
  int chunk = thread;
  for (; chunk + (kLoads - 1) * kThreads < chunks; chunk += kLoads * kThreads) {
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) words[i] = body[chunk + i * kThreads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) add_words(sum, words[i], T{});
  }
  for (; chunk < chunks; chunk += kThreads) add_words(sum, body[chunk], T{});
  if (thread < head + rest) {
    const float x[1] = {widen_one(logits[thread < head ? thread : vocabulary - rest + thread - head])};
    sum.add(x);
  }
  sum.merge_warp();
  __shared__ float maxima[kThreads / 32];
  __shared__ float sums[kThreads / 32];
  if (thread % 32 == 0) {
    maxima[thread / 32] = sum.maximum;
    sums[thread / 32] = sum.sum;
  }
  __syncthreads();
  if (thread >= 32) return;
  const bool known = thread < kThreads / 32;
  sum.maximum = known ? maxima[thread] : -INFINITY;
  sum.sum = known ? sums[thread] : 0.0F;
  sum.merge_warp();
  if (thread != 0) return;
  const std::int32_t label = a.labels[row];
  const bool valid = label >= 0 && label < vocabulary;
  a.loss[row] = valid ? sum.maximum - widen_one(logits[label]) + logf(sum.sum) : NAN;
}

}  // namespace

Status token_loss(const TokenLoss& a, Stream stream) {
  if (a.rows < 1 || a.rows > kMost || a.vocabulary < 1 || a.vocabulary > kMost || a.logits_stride < a.vocabulary) {
    return Status::invalid_argument;
  }
  if (a.logits == nullptr || a.labels == nullptr || a.loss == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const auto blocks = static_cast<unsigned>(a.rows);
  if (a.logits_type == ElementType::float32) {
    token_loss_kernel<float><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    token_loss_kernel<Bfloat16><<<blocks, kThreads, 0, stream>>>(a);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
