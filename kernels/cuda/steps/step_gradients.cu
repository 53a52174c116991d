// Gradients of the residual stream's norm and of SwiGLU; those of the steps over heads are in step_gradients_heads.cu.
#include <cmath>

#include "kernels/cuda/attention/gradient_sums.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/step_gradients.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;

/// How a block holds rows of a norm: Chunks of eight numbers a thread, Rows rows at once.
template <int Threads, int Chunks, int Rows>
struct NormShape {
  static constexpr int kThreads = Threads;
  static constexpr int kChunks = Chunks;
  static constexpr int kRows = Rows;
  static constexpr int kWarps = Threads / 32;
  static constexpr std::int64_t kWidth = std::int64_t{Threads} * Chunks * 8;
};
using NarrowNorm = NormShape<256, 1, 1>;
using WideNorm = NormShape<1024, 1, 1>;
using WidestNorm = NormShape<1024, 2, 1>;

std::int64_t norm_rows_at_once(std::int64_t width) { return width <= NarrowNorm::kWidth ? NarrowNorm::kRows : 1; }

/// Sums over the threads of a block. The memory is written again only two calls later, so that one barrier is enough.
template <int Warps, int Count>
__device__ __forceinline__ void sum_over_block(float (&x)[Count], float (&of_warp)[Warps][Count]) {
#pragma unroll
  for (float& value : x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  }
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < Count; ++i) of_warp[threadIdx.x / 32][i] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    x[i] = lane % Warps < blockDim.x / 32 ? of_warp[lane % Warps][i] : 0.0F;
#pragma unroll
    for (int step = Warps / 2; step > 0; step /= 2) x[i] += __shfl_xor_sync(0xffffffffU, x[i], step);
  }
}

/// A row is held in the registers of a block between its two sums and the output.
template <class T, bool Aligned, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    residual_norm_gradient_kernel(const __grid_constant__ ResidualNormGradient a, const int rows_of_block) {
  constexpr int kRows = Shape::kRows;
  constexpr int kChunks = Shape::kChunks;
  const auto width = static_cast<int>(a.width);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const float inverse_width = 1.0F / static_cast<float>(width);
  RawChunk<float> weight[kChunks];
  RowChunk weight_sums[kChunks] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * threads + thread) * 8;
    weight[c].clear();
    if (column < width) load_chunk<Aligned>(a.weight + column, width - column, weight[c]);
  }
  __shared__ float of_warp[2][Shape::kWarps][2 * kRows];
  int parity = 0;
  const std::int64_t begin = std::int64_t{blockIdx.x} * rows_of_block;
  const std::int64_t end = min(begin + rows_of_block, a.rows);
  for (std::int64_t first = begin; first < end; first += kRows, parity ^= 1) {
    RawChunk<float> input[kRows][kChunks];
    RawChunk<float> residual[kRows][kChunks];
    RawChunk<T> gradient[kRows][kChunks];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int column = (c * threads + thread) * 8;
        input[r][c].clear();
        residual[r][c].clear();
        gradient[r][c].clear();
        if (column >= width || first + r >= end) continue;
        const std::int64_t place = (first + r) * width + column;
        load_chunk<Aligned>(a.residual + place, width - column, input[r][c]);
        load_chunk<Aligned>(static_cast<const T*>(a.normed_gradient) + place, width - column, gradient[r][c]);
        load_chunk<Aligned>(a.residual_gradient + place, width - column, residual[r][c]);
      }
    }
    float sums[2 * kRows] = {};  // of x^2 and of g x, one row after the other
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        RowChunk dy;
        gradient[r][c].read(dy);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float x = input[r][c].numbers[i];
          sums[2 * r] += x * x;
          sums[2 * r + 1] += dy[i] * weight[c].numbers[i] * x;
        }
      }
    }
    sum_over_block<Shape::kWarps>(sums, of_warp[parity]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= end) break;
      const float factor = rsqrtf(sums[2 * r] * inverse_width + a.epsilon);
      const float back = factor * factor * factor * (sums[2 * r + 1] * inverse_width);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int column = (c * threads + thread) * 8;
        if (column >= width) continue;
        RowChunk dy;
        RowChunk dx;
        gradient[r][c].read(dy);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float x = input[r][c].numbers[i];
          dx[i] = residual[r][c].numbers[i] + (factor * dy[i] * weight[c].numbers[i] - back * x);
          weight_sums[c][i] += dy[i] * (x * factor);
        }
        const std::int64_t place = (first + r) * width + column;
        store_chunk<Aligned>(a.residual_gradient + place, width - column, dx);
        if (a.increment_gradient == nullptr) continue;
        store_chunk<Aligned>(static_cast<Bfloat16*>(a.increment_gradient) + place, width - column, dx);
      }
    }
  }
  if (a.weight_gradient == nullptr) return;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * threads + thread) * 8;
    if (column >= width) continue;
    float* to = static_cast<float*>(a.workspace) + std::int64_t{blockIdx.x} * width + column;
    store_chunk<Aligned>(to, width - column, weight_sums[c]);
  }
}

template <class T, bool Aligned, class Shape>
void launch_norm_shape(const ResidualNormGradient& a, const SummedRows& blocks, cudaStream_t stream) {
  constexpr std::int64_t kOfWarp = std::int64_t{32} * Shape::kChunks * 8;
  const std::int64_t warps = (a.width + kOfWarp - 1) / kOfWarp;
  residual_norm_gradient_kernel<T, Aligned, Shape>
      <<<static_cast<unsigned>(blocks.count), static_cast<unsigned>(warps) * 32, 0, stream>>>(
          a, static_cast<int>(blocks.rows_of_block));
}

template <class T, bool Aligned>
void launch_norm(const ResidualNormGradient& a, const SummedRows& blocks, cudaStream_t stream) {
  if (a.width <= NarrowNorm::kWidth) {
    launch_norm_shape<T, Aligned, NarrowNorm>(a, blocks, stream);
  } else if (a.width <= WideNorm::kWidth) {
    launch_norm_shape<T, Aligned, WideNorm>(a, blocks, stream);
  } else {
    launch_norm_shape<T, Aligned, WidestNorm>(a, blocks, stream);
  }
}

bool norm_sizes_valid(const ResidualNormGradient& a) {
  return a.rows >= 1 && a.rows <= kMostRows && a.width >= 1 && a.width <= WidestNorm::kWidth;
}

constexpr int kProductThreads = 256;
constexpr int kPiecesOfThread = 2;

template <bool Aligned>
__global__ void __launch_bounds__(kProductThreads)
    swiglu_gradient_kernel(const __grid_constant__ SwiGluGradient a, unsigned chunks) {
  const auto inner = static_cast<int>(a.inner);
  const auto total = static_cast<unsigned>(a.rows) * chunks;
  const unsigned first = blockIdx.x * (kProductThreads * kPiecesOfThread) + threadIdx.x;
  RawChunk<Bfloat16> gate[kPiecesOfThread];
  RawChunk<Bfloat16> value[kPiecesOfThread];
  RawChunk<Bfloat16> gradient[kPiecesOfThread];
#pragma unroll
  for (int p = 0; p < kPiecesOfThread; ++p) {
    const unsigned piece = first + static_cast<unsigned>(p) * kProductThreads;
    if (piece >= total) break;
    const int column = static_cast<int>(piece % chunks) * 8;
    const std::int64_t row = std::int64_t{piece / chunks};
    const Bfloat16* from = static_cast<const Bfloat16*>(a.wide) + row * 2 * inner + column;
    load_chunk<Aligned>(from, inner - column, gate[p]);
    load_chunk<Aligned>(from + inner, inner - column, value[p]);
    load_chunk<Aligned>(static_cast<const Bfloat16*>(a.product_gradient) + row * inner + column, inner - column,
                        gradient[p]);
  }
#pragma unroll
  for (int p = 0; p < kPiecesOfThread; ++p) {
    const unsigned piece = first + static_cast<unsigned>(p) * kProductThreads;
    if (piece >= total) break;
    const int column = static_cast<int>(piece % chunks) * 8;
    const std::int64_t row = std::int64_t{piece / chunks};
    RowChunk g;
    RowChunk u;
    RowChunk dp;
    RowChunk product;
    gate[p].read(g);
    value[p].read(u);
    gradient[p].read(dp);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float s = sigmoid(g[i]);
      const float silu = g[i] * s;
      product[i] = silu * u[i];
      g[i] = dp[i] * u[i] * (s + silu * (1.0F - s));
      u[i] = dp[i] * silu;
    }
    Bfloat16* to = static_cast<Bfloat16*>(a.wide_gradient) + row * 2 * inner + column;
    store_chunk<Aligned>(to, inner - column, g);
    store_chunk<Aligned>(to + inner, inner - column, u);
    if (a.product == nullptr) continue;
    store_chunk<Aligned>(static_cast<Bfloat16*>(a.product) + row * inner + column, inner - column, product);
  }
}

}  // namespace

std::size_t workspace_bytes(const ResidualNormGradient& a) {
  if (a.weight_gradient == nullptr || !norm_sizes_valid(a)) return 0;
  return SummedRows(a.rows, norm_rows_at_once(a.width)).sum_bytes(a.width);
}

Status residual_norm_gradient(const ResidualNormGradient& a, Stream stream) {
  if (!norm_sizes_valid(a) || !(a.epsilon >= 0)) return Status::invalid_argument;
  if (a.residual == nullptr || a.weight == nullptr || a.normed_gradient == nullptr || a.residual_gradient == nullptr ||
      (a.weight_gradient != nullptr && a.workspace == nullptr)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const SummedRows blocks(a.rows, norm_rows_at_once(a.width));
  const bool aligned = a.width % 8 == 0 && aligned_16(a.residual) && aligned_16(a.weight) &&
                       aligned_16(a.normed_gradient) && aligned_16(a.residual_gradient) &&
                       aligned_16(a.increment_gradient) && aligned_16(a.workspace);
  const auto launch = [&](auto gradient) {
    using T = decltype(gradient);
    aligned ? launch_norm<T, true>(a, blocks, stream) : launch_norm<T, false>(a, blocks, stream);
  };
  a.normed_gradient_type == ElementType::float32 ? launch(float{}) : launch(Bfloat16{});
  if (a.weight_gradient != nullptr) {
    add_sums(static_cast<const float*>(a.workspace), blocks.count, a.width, a.width, a.weight_gradient, stream);
  }
  return launched();
}

Status swiglu_gradient(const SwiGluGradient& a, Stream stream) {
  if (a.rows < 1 || a.inner < 1 || a.rows > kMostRows || a.inner > kMostRows) return Status::invalid_argument;
  const std::int64_t chunks = (a.inner + 7) / 8;
  if (a.rows * chunks > kMostRows) return Status::invalid_argument;
  if (a.wide == nullptr || a.product_gradient == nullptr || a.wide_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  constexpr std::int64_t kPieces = kProductThreads * kPiecesOfThread;
  const auto blocks = static_cast<unsigned>((a.rows * chunks + kPieces - 1) / kPieces);
  const bool aligned = a.inner % 8 == 0 && aligned_16(a.wide) && aligned_16(a.product_gradient) &&
                       aligned_16(a.wide_gradient) && aligned_16(a.product);
  if (aligned) {
    swiglu_gradient_kernel<true><<<blocks, kProductThreads, 0, stream>>>(a, static_cast<unsigned>(chunks));
  } else {
    swiglu_gradient_kernel<false><<<blocks, kProductThreads, 0, stream>>>(a, static_cast<unsigned>(chunks));
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
