#include <cuda_bf16.h>

#include <algorithm>
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

static_assert(kWarps == kBand / 2 && kBands * (kBands - 1) / 2 <= kWarps);

/// M of pairs in different bands, a warp each two bands, on tensor cores: with r the last row before the queries' band,
/// exp(c_i - c_j) is exp(c_i - c_r) exp(c_r - c_j), neither of which is above 1. Queries come in two bfloat16 parts.
__device__ __forceinline__ void score_bands(const ChannelMemory& m, Bfloat16* scores) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  if (warp >= kBands * (kBands - 1) / 2) return;
  const int later = warp < 1 ? 1 : warp < 3 ? 2 : 3;
  const int earlier = warp - later * (later - 1) / 2;
  const int row = thread % 32 / 4;
  const int column = thread % 4 * 2;
  const float* const reference = m.c + (later * kBand - 1) * m.stride;
  float sum[2][4] = {};
  for (int first = 0; first < m.width; first += 16) {
    std::uint32_t high[4];
    std::uint32_t rest[4];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int i = later * kBand + row + part % 2 * 8;
      const int n = first + column + part / 2 * 8;
      float x[2] = {0, 0};
      if (n < m.width) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          x[e] = m.q[i * m.stride + n + e] * decay(m.c[i * m.stride + n + e] - reference[n + e]);
        }
      }
      float low_of_pair;
      float high_of_pair;
      high[part] = narrow(x[0], x[1]);
      widen(high[part], low_of_pair, high_of_pair);
      rest[part] = narrow(x[0] - low_of_pair, x[1] - high_of_pair);
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const int j = earlier * kBand + tile * 8 + row;
      std::uint32_t right[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int n = first + column + half * 8;
        float x[2] = {0, 0};
        if (n < m.width) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            x[e] = m.k[j * m.stride + n + e] * decay(reference[n + e] - m.c[j * m.stride + n + e]);
          }
        }
        right[half] = narrow(x[0], x[1]);
      }
      multiply(sum[tile], high, right[0], right[1]);
      multiply(sum[tile], rest, right[0], right[1]);
    }
  }
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = later * kBand + row + half * 8;
      *reinterpret_cast<std::uint32_t*>(scores + i * kT + earlier * kBand + tile * 8 + column) =
          narrow(sum[tile][2 * half], sum[tile][2 * half + 1]);
    }
  }
}

/// M of pairs of one band, and zeros above: a warp has two rows of each band, with 17 pairs together, and a lane every
/// 32nd channel.
__device__ __forceinline__ void score_pairs(const ChannelMemory& m, Bfloat16* scores) {
  constexpr int kOfLane = kMostChannels / 32;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  for (int n = 0; n < 2 * kBands; ++n) {
    const int begin = n / 2 * kBand;
    const int i = begin + (n % 2 == 0 ? warp : kBand - 1 - warp);
    float q[kOfLane];
    float c[kOfLane];
#pragma unroll
    for (int p = 0; p < kOfLane; ++p) {
      const int channel = p * 32 + lane;
      q[p] = channel < m.width ? m.q[i * m.stride + channel] : 0.0F;
      c[p] = channel < m.width ? m.c[i * m.stride + channel] : 0.0F;
    }
    float score = 0;
    for (int j = begin; j <= i; ++j) {
      float sum = 0;
#pragma unroll
      for (int p = 0; p < kOfLane; ++p) {
        const int channel = p * 32 + lane;
        if (channel >= m.width) break;
        sum += q[p] * m.k[j * m.stride + channel] * decay(c[p] - m.c[j * m.stride + channel]);
      }
#pragma unroll
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
      if (lane == j - begin) score = sum;
    }
    for (int j = begin + lane; j < kT; j += 32) {
      scores[i * kT + j] = __float2bfloat16_rn(j < begin + kBand ? score : 0.0F);
    }
  }
}

/// A block is a chunk of a head.
__global__ void __launch_bounds__(kThreads, 2) channel_chunks_kernel(const __grid_constant__ ChannelChunks a) {
  extern __shared__ __align__(16) float shared[];
  const int width = static_cast<int>(a.width);
  const ChannelMemory m(shared, width);
  const auto thread = static_cast<int>(threadIdx.x);
  const int pieces = width / 4;
  load_chunk(a, ChannelPlace(a), m, a.kept + blockIdx.x * a.width);
  const std::int64_t out = std::int64_t{blockIdx.x} * kT * width;
  for (int e = thread; e < kT * pieces; e += kThreads) {
    const int column = e % pieces * 4;
    const int at = e / pieces * m.stride + column;
    const auto q = *reinterpret_cast<const float4*>(m.q + at);
    const auto k = *reinterpret_cast<const float4*>(m.k + at);
    const auto c = *reinterpret_cast<const float4*>(m.c + at);
    const auto end = *reinterpret_cast<const float4*>(m.c + (kT - 1) * m.stride + column);
    *reinterpret_cast<uint2*>(static_cast<Bfloat16*>(a.query_decayed) + out + 4 * e) = {
        narrow(q.x * decay(c.x), q.y * decay(c.y)), narrow(q.z * decay(c.z), q.w * decay(c.w))};
    *reinterpret_cast<uint2*>(static_cast<Bfloat16*>(a.key_decayed) + out + 4 * e) = {
        narrow(k.x * decay(end.x - c.x), k.y * decay(end.y - c.y)),
        narrow(k.z * decay(end.z - c.z), k.w * decay(end.w - c.w))};
  }
  auto* const scores = static_cast<Bfloat16*>(a.scores) + std::int64_t{blockIdx.x} * kT * kT;
  score_pairs(m, scores);
  score_bands(m, scores);
}

}  // namespace

Status channel_chunks(const ChannelChunks& a, Stream stream) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  if (!is_size(a.batch) || !is_size(a.heads) || !is_size(a.length) || a.batch * a.heads * chunks >= kMostBlocks ||
      a.width < 8 || a.width > kMostChannels || a.width % 8 != 0 || !readable(a.query) || !readable(a.key) ||
      a.log_decay == nullptr || a.scores == nullptr || a.query_decayed == nullptr || a.key_decayed == nullptr ||
      a.kept == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const int bytes = ChannelMemory::bytes(a.width);
  const Status allowed = allow_memory(channel_chunks_kernel, bytes);
  if (allowed != Status::ok) return allowed;
  channel_chunks_kernel<<<static_cast<unsigned>(a.batch * a.heads * chunks), kThreads, bytes, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
