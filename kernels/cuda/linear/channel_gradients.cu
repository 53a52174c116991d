#include <cuda_bf16.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/delta_tiles.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kT = static_cast<int>(kLinearChunk);
constexpr int kScoreStride = kT + 4;  // so that a warp writes a column to different banks
constexpr int kRows = 16;             // of a chunk, whose gradients by queries a thread has in registers
constexpr int kMostChannels = 256;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;
constexpr float kLog2E = 1.44269504F;

/// 2^min(0, x); NaN stays.
__device__ __forceinline__ float decay2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x > 0.0F ? 0.0F : x));
  return y;
}

/// The part of a chunk's pairs that a thread has at hand: `kRows` queries of a channel.
struct Queries {
  float q[kRows];
  float c[kRows];  // in bits, as all c here
  float gradient[kRows];

  /// Adds the pairs of these queries and one key.
  /// @param scores  gradients by the scores of that key, of these queries
  /// @param from    the first query that is not before the key
  /// @returns what the key gets
  template <int From>
  __device__ __forceinline__ float add(const float* scores, float key, float key_c) {
    float of_key = 0;
#pragma unroll
    for (int i = From / 4 * 4; i < kRows; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(scores + i);
      const float m[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        if (i + x < From) continue;
        const float decayed = m[x] * decay2(c[i + x] - key_c);
        gradient[i + x] = fmaf(decayed, key, gradient[i + x]);
        of_key = fmaf(decayed, q[i + x], of_key);
      }
    }
    return of_key;
  }
};

/// A block is a chunk of a head, a thread a channel. It goes through the queries from the last to the first, 16 at a
/// time, so that the gradients of 16 positions are whole when the sums of log decays come to them.
__global__ void __launch_bounds__(kMostChannels)
    channel_chunks_gradient_kernel(const __grid_constant__ ChannelChunksGradient a) {
  extern __shared__ __align__(16) float shared[];
  const auto width = static_cast<int>(a.width);
  float* const scores = shared;  // [T of keys, T of queries]
  float* const keys = scores + kT * kScoreStride;
  float* const sums = keys + kT * width;  // c
  float* const of_keys = sums + kT * width;
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t n = blockIdx.x % chunks;
  const std::int64_t head = blockIdx.x / chunks;
  const auto rows = static_cast<int>(min(std::int64_t{kT}, a.length - n * kT));
  const std::int64_t b = head / a.heads;
  const std::int64_t h = head % a.heads;
  const auto first_of = [&](const HeadRows& x) {
    return x.data + b * x.batch_stride + h * x.head_stride + n * kT * x.row_stride;
  };
  const float* const queries = first_of(a.query);
  const auto channel = static_cast<int>(threadIdx.x);
  const auto* const scores_gradient =
      static_cast<const Bfloat16*>(a.scores_gradient) + std::int64_t{blockIdx.x} * kT * kT;
  for (int e = channel; e < kT * kT; e += static_cast<int>(blockDim.x)) {
    scores[e % kT * kScoreStride + e / kT] = __bfloat162float(scores_gradient[e]);
  }
  const std::int64_t of_chunk = std::int64_t{blockIdx.x} * kT * width + channel;
  const auto* const query_decayed = static_cast<const Bfloat16*>(a.query_decayed_gradient) + of_chunk;
  const auto* const key_decayed = static_cast<const Bfloat16*>(a.key_decayed_gradient) + of_chunk;
  const bool inside = channel < width;
  double later = 0;  // gradient by c of the positions behind
  float total = 0;
  if (inside) {
    const float* const from = first_of(a.key) + channel;
    const double* const log_decay =
        a.log_decay + b * a.decay_batch_stride + h * a.decay_head_stride + n * kT * a.decay_row_stride + channel;
    double sum = 0;
#pragma unroll 8
    for (int row = 0; row < kT; ++row) {
      if (row < rows) sum += log_decay[row * a.decay_row_stride];
      keys[row * width + channel] = row < rows ? from[row * a.key.row_stride] : 0.0F;
      sums[row * width + channel] = static_cast<float>(sum * kLog2E);
      of_keys[row * width + channel] = 0;
    }
    total = static_cast<float>(sum * kLog2E);
    // What the last c gets, which all decays of the chunk are in.
    float end = decay2(total) * a.kept_gradient[std::int64_t{blockIdx.x} * width + channel];
#pragma unroll 8
    for (int row = 0; row < kT; ++row) {
      const int at = row * width + channel;
      end += keys[at] * decay2(total - sums[at]) * __bfloat162float(key_decayed[row * width]);
    }
    later = end;
  }
  __syncthreads();
  if (!inside) return;
  const std::int64_t out = (head * a.length + n * kT) * width + channel;
  for (int first = kT - kRows; first >= 0; first -= kRows) {
    if (first >= rows) continue;
    Queries at_hand;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i;
      at_hand.q[i] = row < rows ? queries[row * a.query.row_stride + channel] : 0.0F;
      at_hand.c[i] = sums[row * width + channel];
      at_hand.gradient[i] = 0;
    }
    for (int j = 0; j < first; ++j) {
      const int at = j * width + channel;
      of_keys[at] += at_hand.add<0>(scores + j * kScoreStride + first, keys[at], sums[at]);
    }
    const auto add_own = [&]<int J>() {
      const int at = (first + J) * width + channel;
      of_keys[at] += at_hand.add<J>(scores + (first + J) * kScoreStride + first, keys[at], sums[at]);
    };
    [&]<int... J>(std::integer_sequence<int, J...>) { (add_own.template operator()<J>(), ...); }
    (std::make_integer_sequence<int, kRows>{});
#pragma unroll
    for (int i = kRows - 1; i >= 0; --i) {
      const int row = first + i;
      if (row >= rows) continue;
      const int at = row * width + channel;
      const float query = at_hand.gradient[i] + decay2(at_hand.c[i]) * __bfloat162float(query_decayed[row * width]);
      const float key = of_keys[at] + decay2(total - at_hand.c[i]) * __bfloat162float(key_decayed[row * width]);
      later += at_hand.q[i] * query - keys[at] * key;
      a.query_gradient[out + row * width] = query;
      a.key_gradient[out + row * width] = key;
      a.log_decay_gradient[out + row * width] = later;
    }
  }
}

bool is_size(std::int64_t size) { return size >= 1 && size < kMostBlocks; }

std::int64_t shared_bytes(std::int64_t width) {
  return (kT * kScoreStride + 3 * kT * width) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

bool channel_chunks_gradient_fits(std::int64_t width) {
  return is_available() && delta_tiles::shared_memory_holds(shared_bytes(width));
}

Status channel_chunks_gradient(const ChannelChunksGradient& a, Stream stream) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  if (!is_size(a.batch) || !is_size(a.heads) || !is_size(a.length) || a.batch * a.heads * chunks >= kMostBlocks ||
      a.width < 8 || a.width > kMostChannels || a.width % 8 != 0 || a.query.data == nullptr || a.key.data == nullptr ||
      a.log_decay == nullptr || a.scores_gradient == nullptr || a.query_decayed_gradient == nullptr ||
      a.key_decayed_gradient == nullptr || a.kept_gradient == nullptr || a.query_gradient == nullptr ||
      a.key_gradient == nullptr || a.log_decay_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto bytes = static_cast<int>(shared_bytes(a.width));
  const Status allowed = status_of(
      cudaFuncSetAttribute(channel_chunks_gradient_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  if (allowed != Status::ok) return allowed;
  const auto threads = static_cast<unsigned>((a.width + 31) / 32 * 32);
  channel_chunks_gradient_kernel<<<static_cast<unsigned>(a.batch * a.heads * chunks), threads, bytes, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
