#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/channel_tiles.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

using namespace channel_tiles;

constexpr int kScoreStride = kT + kPad;
constexpr int kGroup = 16;  // channels that a warp has at a time
constexpr int kPairs = kBands - 1;

/// Two numbers in two bfloat16 parts.
struct SplitPair {
  std::uint32_t high;
  std::uint32_t rest;

  __device__ __forceinline__ SplitPair(float x, float y) {
    float x_high;
    float y_high;
    high = narrow(x, y);
    widen(high, x_high, y_high);
    rest = narrow(x - x_high, y - y_high);
  }
};

/// What pairs of different bands give a warp's channels, as mma.sync leaves it: queries of the bands but the first,
/// keys of the bands but the last. Exponentials are split as channel_chunks does.
struct BandGradients {
  float query[kPairs][2][4] = {};
  float key[kPairs][2][4] = {};

  /// @param scores  [T, kScoreStride] gradients by M
  /// @param first   of the channels
  __device__ __forceinline__ BandGradients(const ChannelMemory& m, const Bfloat16* scores, int first) {
    const Lane lane;
#pragma unroll
    for (int later = 1; later < kBands; ++later) {
      const float* const reference = m.c + (later * kBand - 1) * m.stride;
#pragma unroll
      for (int earlier = 0; earlier < later; ++earlier) {
        std::uint32_t rows[4];
        std::uint32_t columns[4];
        load_rows(scores, kScoreStride, later * kBand, earlier * kBand, rows);
        load_left_transposed(scores, kScoreStride, later * kBand, earlier * kBand, columns);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          if (first + 8 * tile >= m.width) break;
          const int right = first + 8 * tile + lane.row;  // a channel of the right operand
          const auto operand = [&](const float* of, int band, int half, bool of_keys) {
            const int at = (band * kBand + lane.column + 8 * half) * m.stride + right;
            float x[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const float difference = m.c[at + e * m.stride] - reference[right];
              x[e] = of[at + e * m.stride] * decay(of_keys ? -difference : difference);
            }
            return SplitPair(x[0], x[1]);
          };
          const SplitPair keys[2] = {operand(m.k, earlier, 0, true), operand(m.k, earlier, 1, true)};
          const SplitPair queries[2] = {operand(m.q, later, 0, false), operand(m.q, later, 1, false)};
          float of_queries[4] = {};
          float of_keys[4] = {};
          multiply(of_queries, rows, keys[0].high, keys[1].high);
          multiply(of_queries, rows, keys[0].rest, keys[1].rest);
          multiply(of_keys, columns, queries[0].high, queries[1].high);
          multiply(of_keys, columns, queries[0].rest, queries[1].rest);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int channel = first + 8 * tile + lane.column + e % 2;
            const int row = lane.row + e / 2 * 8;
            const float r = reference[channel];
            query[later - 1][tile][e] += of_queries[e] * decay(m.c[(later * kBand + row) * m.stride + channel] - r);
            key[earlier][tile][e] += of_keys[e] * decay(r - m.c[(earlier * kBand + row) * m.stride + channel]);
          }
        }
      }
    }
  }

  /// Adds them to what is in the places of queries and keys.
  __device__ __forceinline__ void add_to(const ChannelMemory& m, int first) const {
    const Lane lane;
#pragma unroll
    for (int band = 0; band < kPairs; ++band) {
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        if (first + 8 * tile >= m.width) break;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = (band * kBand + lane.row + e / 2 * 8) * m.stride + first + 8 * tile + lane.column + e % 2;
          m.q[at + kBand * m.stride] += query[band][tile][e];
          m.k[at] += key[band][tile][e];
        }
      }
    }
  }
};

/// Puts what the pairs of one band give in the places of its queries and keys, of one channel.
__device__ __forceinline__ void replace_by_own(const ChannelMemory& m, const Bfloat16* scores, int band, int channel) {
  float* const q = m.q + band * kBand * m.stride + channel;
  float* const k = m.k + band * kBand * m.stride + channel;
  const float* const c = m.c + band * kBand * m.stride + channel;
  scores += band * kBand * (kScoreStride + 1);
  float query[kBand];
  float cumulative[kBand];
  float gradient[kBand] = {};
#pragma unroll
  for (int i = 0; i < kBand; ++i) {
    query[i] = q[i * m.stride];
    cumulative[i] = c[i * m.stride];
  }
#pragma unroll
  for (int j = 0; j < kBand; j += 2) {
    const float key[2] = {k[j * m.stride], k[(j + 1) * m.stride]};
    float of_key[2] = {};
#pragma unroll
    for (int i = j; i < kBand; ++i) {
      float score[2];
      widen(*reinterpret_cast<const std::uint32_t*>(scores + i * kScoreStride + j), score[0], score[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (j + e > i) continue;
        const float decayed = score[e] * decay(cumulative[i] - cumulative[j + e]);
        gradient[i] = fmaf(decayed, key[e], gradient[i]);
        of_key[e] = fmaf(decayed, query[i], of_key[e]);
      }
    }
    k[j * m.stride] = of_key[0];
    k[(j + 1) * m.stride] = of_key[1];
  }
#pragma unroll
  for (int i = 0; i < kBand; ++i) q[i * m.stride] = gradient[i];
}

/// A block is a chunk of a head, a warp some channels of it.
__global__ void __launch_bounds__(kThreads, 2)
    channel_chunks_gradient_kernel(const __grid_constant__ ChannelChunksGradient a) {
  extern __shared__ __align__(16) float shared[];
  const auto width = static_cast<int>(a.width);
  const ChannelMemory m(shared, width);
  auto* const scores = reinterpret_cast<Bfloat16*>(m.c + kT * m.stride);
  const ChannelPlace at(a);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto* const scores_gradient =
      static_cast<const Bfloat16*>(a.scores_gradient) + std::int64_t{blockIdx.x} * kT * kT;
  for (int e = thread; e < kT * kT / 8; e += kThreads) {
    copy_async<16>(scores + e / (kT / 8) * kScoreStride + e % (kT / 8) * 8, scores_gradient + e * 8, true);
  }
  load_chunk(a, at, m, nullptr);
  constexpr int kRowsOfHalf = kT / 2;
  const int lane = thread % 32;
  const int begin = lane / 16 * kRowsOfHalf;  // a lane has half of the rows of a channel
  const int end = min(begin + kRowsOfHalf, at.rows);
  for (int first = thread / 32 * kGroup; first < width; first += kWarps * kGroup) {
    const int channel = first + lane % 16;
    const bool inside = channel < width;
    const BandGradients between(m, scores, first);
    __syncwarp();
    if (inside) {
#pragma unroll 1
      for (int n = 0; n < 2; ++n) replace_by_own(m, scores, lane / 16 * 2 + n, channel);
    }
    __syncwarp();
    between.add_to(m, first);
    __syncwarp();
    const float total = inside ? m.c[(kT - 1) * m.stride + channel] : 0.0F;
    __syncwarp();
    // Gradients by q and k are whole from here on. In c's place goes what c gets of its own position.
    const float* const queries = rows_of(a.query, at.b, at.h, at.n * kT) + channel;
    const float* const keys = rows_of(a.key, at.b, at.h, at.n * kT) + channel;
    const std::int64_t of_chunk = std::int64_t{blockIdx.x} * kT * width + channel;
    const std::int64_t out = (at.head * a.length + at.n * kT) * width + channel;
    float of_total = 0;  // what the last c gets, which all decays of the chunk are in
    double sum = 0;
    if (inside) {
      if (begin == 0) of_total = decay(total) * a.kept_gradient[std::int64_t{blockIdx.x} * width + channel];
#pragma unroll 4
      for (int row = begin; row < end; ++row) {
        const int place = row * m.stride + channel;
        const float q = queries[row * a.query.row_stride];
        const float k = keys[row * a.key.row_stride];
        const float of_query =
            __bfloat162float(static_cast<const Bfloat16*>(a.query_decayed_gradient)[of_chunk + row * width]);
        const float of_key =
            decay(total - m.c[place]) *
            __bfloat162float(static_cast<const Bfloat16*>(a.key_decayed_gradient)[of_chunk + row * width]);
        const float query = m.q[place] + decay(m.c[place]) * of_query;
        const float key = m.k[place] + of_key;
        const float own = q * query - k * key;
        of_total += k * of_key;
        sum += own;
        m.c[place] = own;
        a.query_gradient[out + row * width] = query;
        a.key_gradient[out + row * width] = key;
      }
    }
    of_total += __shfl_xor_sync(0xffffffffU, of_total, 16);
    const double of_other = __shfl_xor_sync(0xffffffffU, sum, 16);
    double later = of_total;
    if (begin == 0) later += of_other;
    if (inside) {
#pragma unroll 4
      for (int row = end - 1; row >= begin; --row) {
        later += m.c[row * m.stride + channel];
        a.log_decay_gradient[out + row * width] = later;
      }
    }
    __syncwarp();
  }
}

std::int64_t shared_bytes(std::int64_t width) {
  return ChannelMemory::bytes(width) + kT * kScoreStride * static_cast<std::int64_t>(sizeof(Bfloat16));
}

}  // namespace

bool channel_chunks_gradient_fits(std::int64_t width) {
  return is_available() && shared_memory_holds(shared_bytes(width));
}

Status channel_chunks_gradient(const ChannelChunksGradient& a, Stream stream) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  if (!is_size(a.batch) || !is_size(a.heads) || !is_size(a.length) || a.batch * a.heads * chunks >= kMostBlocks ||
      a.width < 8 || a.width > kMostChannels || a.width % 8 != 0 || !readable(a.query) || !readable(a.key) ||
      a.log_decay == nullptr || a.scores_gradient == nullptr || !aligned_16(a.scores_gradient) ||
      a.query_decayed_gradient == nullptr || a.key_decayed_gradient == nullptr || a.kept_gradient == nullptr ||
      a.query_gradient == nullptr || a.key_gradient == nullptr || a.log_decay_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto bytes = static_cast<int>(shared_bytes(a.width));
  const Status allowed = allow_memory(channel_chunks_gradient_kernel, bytes);
  if (allowed != Status::ok) return allowed;
  channel_chunks_gradient_kernel<<<static_cast<unsigned>(a.batch * a.heads * chunks), kThreads, bytes, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
