#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/log_sum.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/step_gradients.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksOfProcessor = 2;  // one writes a row while the other reads its own
constexpr int kLoads = 4;              // of 16 bytes, on their way at once
constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// Numbers of a row in 16 bytes.
template <class T>
constexpr int kOfUnit = 16 / static_cast<int>(sizeof(T));

/// A whole unit, or as much of one as there is, then numbers that add nothing to the sum.
template <bool Aligned>
__device__ __forceinline__ uint4 load_unit(const Bfloat16* from, int count) {
  if (Aligned && count >= 8) return *reinterpret_cast<const uint4*>(from);
  constexpr std::uint32_t kMinusInfinity = 0xff80;
  std::uint32_t pairs[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t bits = i < count ? __bfloat16_as_ushort(from[i]) : kMinusInfinity;
    pairs[i / 2] |= bits << (16 * (i % 2));
  }
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}
template <bool Aligned>
__device__ __forceinline__ uint4 load_unit(const float* from, int count) {
  if (Aligned && count >= 4) return *reinterpret_cast<const uint4*>(from);
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = i < count ? from[i] : -INFINITY;
  return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
}

template <bool Aligned, int Count>
__device__ __forceinline__ void store_unit(Bfloat16* to, int count, const float (&x)[Count]) {
  if (Aligned && count >= Count) {
    if constexpr (Count == 8) {
      *reinterpret_cast<uint4*>(to) = {narrow(x[0], x[1]), narrow(x[2], x[3]), narrow(x[4], x[5]), narrow(x[6], x[7])};
    } else {
      *reinterpret_cast<uint2*>(to) = {narrow(x[0], x[1]), narrow(x[2], x[3])};
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (i < count) to[i] = __float2bfloat16_rn(x[i]);
  }
}

/// softmax(x) w - onehot w.
struct RowGradient {
  float maximum = 0;
  float factor = 0;  ///< w / sum exp(x - maximum)
  float weight = 0;  ///< w
  int label = 0;

  /// @param column  of the first number
  template <int Count>
  __device__ __forceinline__ void apply(float (&x)[Count], int column) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] = exp2_fast((x[i] - maximum) * kLog2EFloat) * factor;
    if (label < column || label >= column + Count) return;
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] -= column + i == label ? weight : 0.0F;
  }
};

__device__ void clear_row(Bfloat16* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t x = begin + threadIdx.x; x < end; x += kThreads) to[x] = __float2bfloat16_rn(0.0F);
}

/// A block is a row. Its first units stay in shared memory between the two passes, each where its thread put it.
template <class T, bool Aligned>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    token_loss_gradient_kernel(const __grid_constant__ TokenLossGradient a, const int held) {
  constexpr int kCount = kOfUnit<T>;
  extern __shared__ uint4 row_memory[];
  const std::int64_t row = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto vocabulary = static_cast<int>(a.vocabulary);
  const int units = (vocabulary + kCount - 1) / kCount;
  const T* logits = static_cast<const T*>(a.logits) + row * a.logits_stride;
  auto* to = static_cast<Bfloat16*>(a.logits_gradient) + row * a.logits_gradient_stride;
  const std::int32_t label = a.labels[row];
  const bool valid = label >= 0 && label < vocabulary;
  // Read before the first number is written, which may be over it.
  const float at_label = valid ? widen_one(logits[label]) : NAN;
  LogSum sum;
  for (int first = thread; first < units; first += kLoads * kThreads) {
    uint4 words[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int unit = first + i * kThreads;
      if (unit < units) words[i] = load_unit<Aligned>(logits + unit * kCount, vocabulary - unit * kCount);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int unit = first + i * kThreads;
      if (unit >= units) break;
      if (unit < held) row_memory[unit] = words[i];
      add_words(sum, words[i], T{});
    }
  }
  sum.merge_block<kThreads / 32>();
  if (thread == 0 && a.loss != nullptr) a.loss[row] = sum.maximum - at_label + logf(sum.sum);
  const float weight = a.loss_gradient[row];
  if (weight == 0) {
    clear_row(to, 0, a.logits_gradient_stride);
    return;
  }
  const RowGradient gradient = {sum.maximum, valid ? weight / sum.sum : NAN, weight, label};
  for (int unit = thread; unit < units; unit += kThreads) {
    const int column = unit * kCount;
    float x[kCount];
    read_words(unit < held ? row_memory[unit] : load_unit<Aligned>(logits + column, vocabulary - column), x, T{});
    gradient.apply(x, column);
    store_unit<Aligned>(to + column, vocabulary - column, x);
  }
  clear_row(to, vocabulary, a.logits_gradient_stride);
}

/// Bytes of shared memory that a block can have beside another on a processor; 0 where the device does not say.
std::int64_t shared_bytes() {
  int device = 0;
  int of_processor = 0;
  int of_block = 0;
  int reserved = 0;
  if (!succeeded(cudaGetDevice(&device)) ||
      !succeeded(cudaDeviceGetAttribute(&of_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device)) ||
      !succeeded(cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)) ||
      !succeeded(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device))) {
    return 0;
  }
  constexpr int kOfLogSum = 1024;  // and some more
  const int share = std::min(of_processor / kBlocksOfProcessor - reserved, of_block) - kOfLogSum;
  return std::max(share, 0);
}

template <class T, bool Aligned>
Status launch_gradient(const TokenLossGradient& a, cudaStream_t stream) {
  const std::int64_t units = (a.vocabulary + kOfUnit<T> - 1) / kOfUnit<T>;
  const auto held = static_cast<int>(std::min(units, shared_bytes() / 16));
  const auto kernel = token_loss_gradient_kernel<T, Aligned>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, held * 16))) {
    return Status::failed;
  }
  kernel<<<static_cast<unsigned>(a.rows), kThreads, static_cast<unsigned>(held) * 16, stream>>>(a, held);
  return launched();
}

}  // namespace

Status token_loss_gradient(const TokenLossGradient& a, Stream stream) {
  if (a.rows < 1 || a.rows > kMost || a.vocabulary < 1 || a.vocabulary > kMost || a.logits_stride < a.vocabulary ||
      a.logits_gradient_stride < a.vocabulary) {
    return Status::invalid_argument;
  }
  if (a.logits == nullptr || a.labels == nullptr || a.loss_gradient == nullptr || a.logits_gradient == nullptr) {
    return Status::invalid_argument;
  }
  const bool is_float32 = a.logits_type == ElementType::float32;
  if (a.logits_gradient == a.logits && (is_float32 || a.logits_gradient_stride != a.logits_stride)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const bool aligned = aligned_16(a.logits) && aligned_16(a.logits_gradient) && a.logits_stride % 8 == 0 &&
                       a.logits_gradient_stride % 8 == 0;
  if (is_float32) return aligned ? launch_gradient<float, true>(a, stream) : launch_gradient<float, false>(a, stream);
  return aligned ? launch_gradient<Bfloat16, true>(a, stream) : launch_gradient<Bfloat16, false>(a, stream);
}

}  // namespace foxscope::kernels::cuda
