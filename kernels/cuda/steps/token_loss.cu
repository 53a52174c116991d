#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/log_sum.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/token_loss.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;  // of 16 bytes, on their way at once
constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// A block is a row. The numbers before the first multiple of 16 bytes and after the last are read by themselves.
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
  sum.merge_block<kThreads / 32>();
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
