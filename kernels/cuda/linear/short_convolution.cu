#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kRowsOfPart = 64;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;
constexpr int kChannels = 128;  // of a block

/// The input of the convolution at a position, also before the first.
template <int Taps, class T>
__device__ __forceinline__ float at_position(const ShortConvolution& a, std::int64_t b, std::int64_t t,
                                             std::int64_t channel) {
  if (t >= 0) return static_cast<float>(static_cast<const T*>(a.x)[b * a.batch_stride + t * a.row_stride + channel]);
  return a.before == nullptr ? 0.0F : a.before[(b * (Taps - 1) + t + Taps - 1) * a.channels + channel];
}

/// A thread is a channel through some rows.
template <int Taps, class T>
__global__ void __launch_bounds__(kChannels) convolution_kernel(const __grid_constant__ ShortConvolution a) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kChannels + threadIdx.x;
  if (channel >= a.channels) return;
  const std::int64_t b = blockIdx.z;
  const std::int64_t begin = std::int64_t{blockIdx.y} * kRowsOfPart;
  const std::int64_t end = min(begin + kRowsOfPart, a.length);
  float weight[Taps];
  float x[Taps];
#pragma unroll
  for (int s = 0; s < Taps; ++s) weight[s] = a.weight[channel * Taps + s];
  const float bias = a.bias == nullptr ? 0.0F : a.bias[channel];
#pragma unroll
  for (int s = 1; s < Taps; ++s) x[s] = at_position<Taps, T>(a, b, begin - Taps + s, channel);
#pragma unroll 4
  for (std::int64_t t = begin; t < end; ++t) {
#pragma unroll
    for (int s = 1; s < Taps; ++s) x[s - 1] = x[s];
    x[Taps - 1] = at_position<Taps, T>(a, b, t, channel);
    float z = bias;
#pragma unroll
    for (int s = 0; s < Taps; ++s) z += weight[s] * x[s];
    a.out[(b * a.length + t) * a.channels + channel] = z * sigmoid(z);
  }
}

template <int Taps, class T>
__global__ void __launch_bounds__(kChannels)
    convolution_gradient_kernel(const __grid_constant__ ShortConvolutionGradient a) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kChannels + threadIdx.x;
  if (channel >= a.channels) return;
  const std::int64_t b = blockIdx.z;
  const std::int64_t begin = std::int64_t{blockIdx.y} * kRowsOfPart;
  const std::int64_t end = min(begin + kRowsOfPart, a.length);
  float weight[Taps];
  float x[Taps];
  float dz[Taps] = {};  // dz[s] is that of s rows ago
  float sums[Taps + 1] = {};
#pragma unroll
  for (int s = 0; s < Taps; ++s) weight[s] = a.weight[channel * Taps + s];
  const float bias = a.bias == nullptr ? 0.0F : a.bias[channel];
#pragma unroll
  for (int s = 1; s < Taps; ++s) x[s] = at_position<Taps, T>(a, b, begin - Taps + s, channel);
  constexpr int kTogether = 8;  // rows that are on their way from memory together
  for (std::int64_t first = begin; first < end + Taps - 1; first += kTogether) {
    float read[kTogether];
    float gradient[kTogether];
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const std::int64_t t = first + n;
      const bool inside = t < a.length && t < end + Taps - 1;
      read[n] = inside ? at_position<Taps, T>(a, b, t, channel) : 0.0F;
      gradient[n] = inside ? a.out_gradient[(b * a.length + t) * a.channels + channel] : 0.0F;
    }
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const std::int64_t t = first + n;
      if (t >= end + Taps - 1) break;
#pragma unroll
      for (int s = 1; s < Taps; ++s) x[s - 1] = x[s];
#pragma unroll
      for (int s = Taps - 1; s > 0; --s) dz[s] = dz[s - 1];
      dz[0] = 0;
      if (t < a.length) {
        x[Taps - 1] = read[n];
        float z = bias;
#pragma unroll
        for (int s = 0; s < Taps; ++s) z += weight[s] * x[s];
        const float gate = sigmoid(z);
        dz[0] = gradient[n] * gate * (1.0F + z * (1.0F - gate));
      }
      if (t < end) {
#pragma unroll
        for (int s = 0; s < Taps; ++s) sums[s] += dz[0] * x[s];
        sums[Taps] += dz[0];
      }
      const std::int64_t u = t - Taps + 1;
      if (u < begin) continue;
      float dx = 0;
#pragma unroll
      for (int s = 0; s < Taps; ++s) dx += weight[s] * dz[s];
      static_cast<T*>(a.x_gradient)[(b * a.length + u) * a.channels + channel] = static_cast<T>(dx);
    }
  }
  const std::int64_t part = b * gridDim.y + blockIdx.y;
#pragma unroll
  for (int s = 0; s <= Taps; ++s) a.parts[(part * a.channels + channel) * (Taps + 1) + s] = sums[s];
}

bool is_size(std::int64_t size) { return size >= 1 && size < kMostBlocks; }

unsigned blocks_of(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

bool is_valid(const ShortConvolution& a) {
  return is_size(a.batch) && a.batch < 65536 && is_size(a.length) && a.length <= 65535 * std::int64_t{kRowsOfPart} &&
         is_size(a.channels) && a.taps >= 2 && a.taps <= 4 && a.row_stride >= a.channels && a.x != nullptr &&
         a.weight != nullptr;
}

dim3 parts_of(const ShortConvolution& a) {
  return {blocks_of(a.channels, kChannels), blocks_of(a.length, kRowsOfPart), static_cast<unsigned>(a.batch)};
}

/// Calls launch with the number of taps as a constant.
template <class Launch>
void with_taps(std::int64_t taps, const Launch& launch) {
  if (taps == 2) launch(std::integral_constant<int, 2>{});
  if (taps == 3) launch(std::integral_constant<int, 3>{});
  if (taps == 4) launch(std::integral_constant<int, 4>{});
}

}  // namespace

Status short_convolution(const ShortConvolution& a, Stream stream) {
  if (!is_valid(a) || a.out == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  with_taps(a.taps, [&](auto taps) {
    if (a.x_type == ElementType::float32) {
      convolution_kernel<taps(), float><<<parts_of(a), kChannels, 0, stream>>>(a);
    } else {
      convolution_kernel<taps(), Bfloat16><<<parts_of(a), kChannels, 0, stream>>>(a);
    }
  });
  return launched();
}

std::int64_t short_convolution_parts(const ShortConvolution& a) {
  return a.batch * ((a.length + kRowsOfPart - 1) / kRowsOfPart);
}

Status short_convolution_gradient(const ShortConvolutionGradient& a, Stream stream) {
  if (!is_valid(a) || a.before != nullptr || a.out_gradient == nullptr || a.x_gradient == nullptr ||
      a.parts == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  with_taps(a.taps, [&](auto taps) {
    if (a.x_type == ElementType::float32) {
      convolution_gradient_kernel<taps(), float><<<parts_of(a), kChannels, 0, stream>>>(a);
    } else {
      convolution_gradient_kernel<taps(), Bfloat16><<<parts_of(a), kChannels, 0, stream>>>(a);
    }
  });
  return launched();
}

}  // namespace foxscope::kernels::cuda
