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

template <int Width>
__device__ __forceinline__ void load(const float* from, float (&x)[Width]) {
  if constexpr (Width == 2) {
    const float2 pair = *reinterpret_cast<const float2*>(from);
    x[0] = pair.x;
    x[1] = pair.y;
  } else {
    x[0] = *from;
  }
}
template <int Width>
__device__ __forceinline__ void load(const Bfloat16* from, float (&x)[Width]) {
  if constexpr (Width == 2) {
    widen(*reinterpret_cast<const std::uint32_t*>(from), x[0], x[1]);
  } else {
    x[0] = static_cast<float>(*from);
  }
}

template <int Width>
__device__ __forceinline__ void store(float* to, const float (&x)[Width]) {
  if constexpr (Width == 2) {
    *reinterpret_cast<float2*>(to) = {x[0], x[1]};
  } else {
    *to = x[0];
  }
}
template <int Width>
__device__ __forceinline__ void store(Bfloat16* to, const float (&x)[Width]) {
  if constexpr (Width == 2) {
    *reinterpret_cast<std::uint32_t*>(to) = narrow(x[0], x[1]);
  } else {
    *to = __float2bfloat16_rn(x[0]);
  }
}

/// Some channels of a thread, with what they have read last.
template <int Taps, class T, int Width>
struct Channels {
  float weight[Taps][Width];
  float bias[Width];
  float x[Taps][Width];  // the newest last
  const T* from;         // of the row that is read next

  /// Reads the rows before `begin`, also those before the first.
  __device__ __forceinline__ Channels(const ShortConvolution& a, std::int64_t b, std::int64_t begin,
                                      std::int64_t channel)
      : from(static_cast<const T*>(a.x) + b * a.batch_stride + begin * a.row_stride + channel) {
#pragma unroll
    for (int w = 0; w < Width; ++w) {
#pragma unroll
      for (int s = 0; s < Taps; ++s) weight[s][w] = a.weight[(channel + w) * Taps + s];
      bias[w] = a.bias == nullptr ? 0.0F : a.bias[channel + w];
    }
#pragma unroll
    for (int s = 1; s < Taps; ++s) {
      const std::int64_t t = begin - Taps + s;
#pragma unroll
      for (int w = 0; w < Width; ++w) {
        const bool is_before = t < 0 && a.before != nullptr;
        x[s][w] = is_before ? a.before[(b * (Taps - 1) + t + Taps - 1) * a.channels + channel + w] : 0.0F;
      }
      if (t >= 0) load<Width>(from - (Taps - s) * a.row_stride, x[s]);
    }
  }
  __device__ __forceinline__ void take(const float (&read)[Width]) {
#pragma unroll
    for (int w = 0; w < Width; ++w) {
#pragma unroll
      for (int s = 1; s < Taps; ++s) x[s - 1][w] = x[s][w];
      x[Taps - 1][w] = read[w];
    }
  }
  [[nodiscard]] __device__ __forceinline__ float sum(int w) const {
    float z = bias[w];
#pragma unroll
    for (int s = 0; s < Taps; ++s) z += weight[s][w] * x[s][w];
    return z;
  }
};

constexpr int kTogether = 8;  // rows that are on their way from memory together

/// A thread is one or two channels through some rows.
template <int Taps, class T, int Width>
__global__ void __launch_bounds__(kChannels) convolution_kernel(const __grid_constant__ ShortConvolution a) {
  const std::int64_t channel = (std::int64_t{blockIdx.x} * kChannels + threadIdx.x) * Width;
  if (channel >= a.channels) return;
  const std::int64_t b = blockIdx.z;
  const std::int64_t begin = std::int64_t{blockIdx.y} * kRowsOfPart;
  const auto count = static_cast<int>(min(std::int64_t{kRowsOfPart}, a.length - begin));
  Channels<Taps, T, Width> at_hand(a, b, begin, channel);
  float* to = a.out + (b * a.length + begin) * a.channels + channel;
  for (int first = 0; first < count; first += kTogether) {
    float read[kTogether][Width] = {};
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      if (first + n < count) load<Width>(at_hand.from, read[n]);
      at_hand.from += a.row_stride;
    }
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      if (first + n >= count) break;
      at_hand.take(read[n]);
      float out[Width];
#pragma unroll
      for (int w = 0; w < Width; ++w) {
        const float z = at_hand.sum(w);
        out[w] = z * sigmoid(z);
      }
      store<Width>(to, out);
      to += a.channels;
    }
  }
}

template <int Taps, class T, int Width>
__global__ void __launch_bounds__(kChannels)
    convolution_gradient_kernel(const __grid_constant__ ShortConvolutionGradient a) {
  const std::int64_t channel = (std::int64_t{blockIdx.x} * kChannels + threadIdx.x) * Width;
  if (channel >= a.channels) return;
  const std::int64_t b = blockIdx.z;
  const std::int64_t begin = std::int64_t{blockIdx.y} * kRowsOfPart;
  const auto count = static_cast<int>(min(std::int64_t{kRowsOfPart}, a.length - begin));
  // The rows behind the part read its last ones.
  const auto inside = static_cast<int>(min(std::int64_t{kRowsOfPart + Taps - 1}, a.length - begin));
  Channels<Taps, T, Width> at_hand(a, b, begin, channel);
  const std::int64_t place = (b * a.length + begin) * a.channels + channel;
  const float* gradient_from = a.out_gradient + place;
  T* to = static_cast<T*>(a.x_gradient) + place;
  float dz[Taps][Width] = {};  // dz[s] is that of s rows ago
  float sums[Taps + 1][Width] = {};
  for (int first = 0; first < count + Taps - 1; first += kTogether) {
    float read[kTogether][Width] = {};
    float gradient[kTogether][Width] = {};
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      if (first + n < inside) {
        load<Width>(at_hand.from, read[n]);
        load<Width>(gradient_from, gradient[n]);
      }
      at_hand.from += a.row_stride;
      gradient_from += a.channels;
    }
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const int t = first + n;
      if (t >= count + Taps - 1) break;
      if (t < inside) at_hand.take(read[n]);
      float dx[Width] = {};
#pragma unroll
      for (int w = 0; w < Width; ++w) {
#pragma unroll
        for (int s = Taps - 1; s > 0; --s) dz[s][w] = dz[s - 1][w];
        const float z = at_hand.sum(w);
        const float gate = sigmoid(z);
        dz[0][w] = t < inside ? gradient[n][w] * gate * (1.0F + z * (1.0F - gate)) : 0.0F;
        if (t < count) {
#pragma unroll
          for (int s = 0; s < Taps; ++s) sums[s][w] += dz[0][w] * at_hand.x[s][w];
          sums[Taps][w] += dz[0][w];
        }
#pragma unroll
        for (int s = 0; s < Taps; ++s) dx[w] += at_hand.weight[s][w] * dz[s][w];
      }
      if (t < Taps - 1) continue;
      store<Width>(to, dx);
      to += a.channels;
    }
  }
  const std::int64_t part = b * gridDim.y + blockIdx.y;
#pragma unroll
  for (int w = 0; w < Width; ++w) {
#pragma unroll
    for (int s = 0; s <= Taps; ++s) a.parts[(part * a.channels + channel + w) * (Taps + 1) + s] = sums[s][w];
  }
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

dim3 parts_of(const ShortConvolution& a, int width) {
  return {blocks_of(a.channels, std::int64_t{kChannels} * width), blocks_of(a.length, kRowsOfPart),
          static_cast<unsigned>(a.batch)};
}

/// Whether two channels can be read at a time, of x and of what lies beside it.
bool in_pairs(const ShortConvolution& a, const void* out, const void* gradient) {
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 8 == 0; };
  return a.channels % 2 == 0 && a.row_stride % 2 == 0 && a.batch_stride % 2 == 0 && aligned(out) && aligned(gradient) &&
         reinterpret_cast<std::uintptr_t>(a.x) % (a.x_type == ElementType::float32 ? 8 : 4) == 0;
}

/// Calls launch with the number of taps, a number of x's type and the number of channels of a thread as constants.
template <class Launch>
void with_constants(const ShortConvolution& a, bool pairs, const Launch& launch) {
  const auto with_taps = [&](auto taps) {
    const auto with_width = [&](auto width) {
      if (a.x_type == ElementType::float32) {
        launch(taps, float{}, width);
      } else {
        launch(taps, Bfloat16{}, width);
      }
    };
    if (pairs) {
      with_width(std::integral_constant<int, 2>{});
    } else {
      with_width(std::integral_constant<int, 1>{});
    }
  };
  if (a.taps == 2) with_taps(std::integral_constant<int, 2>{});
  if (a.taps == 3) with_taps(std::integral_constant<int, 3>{});
  if (a.taps == 4) with_taps(std::integral_constant<int, 4>{});
}

}  // namespace

Status short_convolution(const ShortConvolution& a, Stream stream) {
  if (!is_valid(a) || a.out == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  with_constants(a, in_pairs(a, a.out, nullptr), [&](auto taps, auto number, auto width) {
    convolution_kernel<taps(), decltype(number), width()><<<parts_of(a, width()), kChannels, 0, stream>>>(a);
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
  const bool pairs = in_pairs(a, a.out_gradient, a.x_gradient);
  with_constants(a, pairs, [&](auto taps, auto number, auto width) {
    convolution_gradient_kernel<taps(), decltype(number), width()><<<parts_of(a, width()), kChannels, 0, stream>>>(a);
  });
  return launched();
}

}  // namespace foxscope::kernels::cuda
