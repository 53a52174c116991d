// Norm of the residual stream and SwiGLU; the steps over heads are in steps_heads.cu.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/steps.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChunksOfLane = 8;    // of a row that one warp holds, up to 2048 numbers
constexpr int kChunksOfThread = 2;  // of a longer row, which is a block's
constexpr int kMostRowWarps = 32;
constexpr std::int64_t kMostWidth = std::int64_t{kMostRowWarps} * 32 * kChunksOfThread * 8;
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;
constexpr int kPiecesOfThread = 4;  // of SwiGLU

/// Sum over the threads of a row: a warp, or a whole block.
template <bool OneWarp>
__device__ float sum_over_row(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  if constexpr (!OneWarp) {
    __shared__ float of_warp[kMostRowWarps];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0F;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  }
  return x;
}

/// A row is held in the registers of its threads between the sum of squares and the output.
template <class Increment, bool Aligned, bool OneWarp>
__global__ void __launch_bounds__(OneWarp ? kThreads : kMostRowWarps * 32)
    residual_norm_kernel(const __grid_constant__ ResidualNorm a) {
  constexpr int kChunks = OneWarp ? kChunksOfLane : kChunksOfThread;
  const int row_threads = OneWarp ? 32 : static_cast<int>(blockDim.x);
  const int lane = static_cast<int>(threadIdx.x) % row_threads;
  const std::int64_t row =
      OneWarp ? std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32 : std::int64_t{blockIdx.x};
  if (row >= a.rows) return;
  const int width = static_cast<int>(a.width);
  float* residual = a.residual + row * width;
  const auto* increment = a.increment == nullptr ? nullptr : static_cast<const Increment*>(a.increment) + row * width;
  RowChunk x[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * row_threads + lane) * 8;
    RawChunk<float> raw;
    raw.clear();
    if (column < width) load_chunk<Aligned>(residual + column, width - column, raw);
    raw.read(x[c]);
  }
  if (increment != nullptr) {
    RawChunk<Increment> raw[kChunks];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * row_threads + lane) * 8;
      raw[c].clear();
      if (column < width) load_chunk<Aligned>(increment + column, width - column, raw[c]);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * row_threads + lane) * 8;
      RowChunk more;
      raw[c].read(more);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[c][i] += more[i];
      if (column < width) store_chunk<Aligned>(residual + column, width - column, x[c]);
    }
  }
  if (a.normed == nullptr && a.normed_float32 == nullptr) return;
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += x[c][i] * x[c][i];
  }
  const float factor = rsqrtf(sum_over_row<OneWarp>(squares) / static_cast<float>(width) + a.epsilon);
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * row_threads + lane) * 8;
    if (column >= width) continue;
    RawChunk<float> raw;
    load_chunk<Aligned>(a.weight + column, width - column, raw);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[c][i] *= factor * raw.numbers[i];
    if (a.normed_float32 != nullptr) {
      store_chunk<Aligned>(a.normed_float32 + row * width + column, width - column, x[c]);
    }
    if (a.normed == nullptr) continue;
    const std::int64_t place = row * a.normed_stride + column;
    store_chunk<Aligned>(static_cast<Bfloat16*>(a.normed) + place, width - column, x[c]);
    if (a.normed_rest == nullptr) continue;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[c][i] -= __bfloat162float(__float2bfloat16_rn(x[c][i]));
    store_chunk<Aligned>(static_cast<Bfloat16*>(a.normed_rest) + place, width - column, x[c]);
  }
}

template <class Increment, bool Aligned>
void launch_residual_norm(const ResidualNorm& a, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(a.rows);
  if (a.width <= 32 * kChunksOfLane * 8) {
    constexpr unsigned kRows = kThreads / 32;
    residual_norm_kernel<Increment, Aligned, true><<<(rows + kRows - 1) / kRows, kThreads, 0, stream>>>(a);
  } else {
    constexpr std::int64_t kOfWarp = std::int64_t{32} * kChunksOfThread * 8;
    const std::int64_t warps = (a.width + kOfWarp - 1) / kOfWarp;
    residual_norm_kernel<Increment, Aligned, false><<<rows, static_cast<unsigned>(warps) * 32, 0, stream>>>(a);
  }
}

template <class T, bool Aligned>
__global__ void __launch_bounds__(kThreads) swiglu_kernel(const __grid_constant__ SwiGlu a, unsigned chunks) {
  const auto inner = static_cast<int>(a.inner);
  const auto total = static_cast<unsigned>(a.rows) * chunks;
  const unsigned first = blockIdx.x * (kThreads * kPiecesOfThread) + threadIdx.x;
  RawChunk<T> gate[kPiecesOfThread];
  RawChunk<T> value[kPiecesOfThread];
#pragma unroll
  for (int p = 0; p < kPiecesOfThread; ++p) {
    const unsigned piece = first + static_cast<unsigned>(p) * kThreads;
    if (piece >= total) break;
    const int column = static_cast<int>(piece % chunks) * 8;
    const T* from = static_cast<const T*>(a.wide) + std::int64_t{piece / chunks} * 2 * inner + column;
    load_chunk<Aligned>(from, inner - column, gate[p]);
    load_chunk<Aligned>(from + inner, inner - column, value[p]);
  }
#pragma unroll
  for (int p = 0; p < kPiecesOfThread; ++p) {
    const unsigned piece = first + static_cast<unsigned>(p) * kThreads;
    if (piece >= total) break;
    const int column = static_cast<int>(piece % chunks) * 8;
    RowChunk g;
    RowChunk y;
    gate[p].read(g);
    value[p].read(y);
#pragma unroll
    for (int i = 0; i < 8; ++i) g[i] *= sigmoid(g[i]) * y[i];
    auto* to = static_cast<Bfloat16*>(a.product) + std::int64_t{piece / chunks} * inner + column;
    store_chunk<Aligned>(to, inner - column, g);
  }
}

template <class T>
void launch_swiglu(const SwiGlu& a, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>((a.inner + 7) / 8);
  constexpr unsigned kPieces = kThreads * kPiecesOfThread;
  const unsigned blocks = (static_cast<unsigned>(a.rows) * chunks + kPieces - 1) / kPieces;
  if (a.inner % 8 == 0 && aligned_16(a.wide) && aligned_16(a.product)) {
    swiglu_kernel<T, true><<<blocks, kThreads, 0, stream>>>(a, chunks);
  } else {
    swiglu_kernel<T, false><<<blocks, kThreads, 0, stream>>>(a, chunks);
  }
}

}  // namespace

Status residual_norm(const ResidualNorm& arguments, Stream stream) {
  ResidualNorm a = arguments;
  if (a.normed_stride == 0) a.normed_stride = a.width;
  if (a.normed_stride < a.width || (a.normed_rest != nullptr && a.normed == nullptr)) return Status::invalid_argument;
  if (a.rows < 1 || a.rows > kMostRows || a.width < 1 || a.width > kMostWidth) return Status::invalid_argument;
  const bool norms = a.normed != nullptr || a.normed_float32 != nullptr;
  if (a.residual == nullptr || (norms && a.weight == nullptr) || !(a.epsilon >= 0)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const bool aligned = a.width % 8 == 0 && aligned_16(a.residual) && aligned_16(a.increment) && aligned_16(a.weight) &&
                       aligned_16(a.normed) && aligned_16(a.normed_rest) && a.normed_stride % 8 == 0 &&
                       aligned_16(a.normed_float32);
  const auto launch = [&](auto increment) {
    using Increment = decltype(increment);
    aligned ? launch_residual_norm<Increment, true>(a, stream) : launch_residual_norm<Increment, false>(a, stream);
  };
  a.increment_type == ElementType::float32 ? launch(float{}) : launch(Bfloat16{});
  return launched();
}

Status swiglu(const SwiGlu& a, Stream stream) {
  if (a.rows < 1 || a.inner < 1 || a.rows > kMostRows || a.inner > kMostRows) return Status::invalid_argument;
  if (a.rows * ((a.inner + 7) / 8) > kMostRows) return Status::invalid_argument;
  if (a.wide == nullptr || a.product == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  a.wide_type == ElementType::float32 ? launch_swiglu<float>(a, stream) : launch_swiglu<Bfloat16>(a, stream);
  return launched();
}

}  // namespace foxscope::kernels::cuda
