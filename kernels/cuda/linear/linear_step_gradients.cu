#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/linear_steps.h"
#include "kernels/cuda/linear/output_rows.cuh"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {
namespace {

using namespace output_rows;

constexpr int kRowsOfPart = 32;
constexpr int kWideThreads = 512;  // of a block of rows
constexpr int kWidePieces = 2;     // of four numbers, of a thread
constexpr int kWideWarps = kWideThreads / 32;
static_assert(kWideThreads * kWidePieces * 4 == kMostWidth);

__device__ __forceinline__ float4 add(const float4& x, const float4& y) {
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

__device__ __forceinline__ float4 times(const float4& x, const float4& y) {
  return {x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w};
}

__device__ __forceinline__ float4 times(const float4& x, float y) { return {x.x * y, x.y * y, x.z * y, x.w * y}; }

__device__ __forceinline__ float dot(const float4& x, const float4& y) {
  return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

__device__ __forceinline__ float silu_slope(float z) {
  const float s = sigmoid(z);
  return s * (1.0F + z * (1.0F - s));
}

__device__ __forceinline__ float4 silu_slope(const float4& z) {
  return {silu_slope(z.x), silu_slope(z.y), silu_slope(z.z), silu_slope(z.w)};
}

/// Four numbers as they lie in memory.
template <class T>
struct RawFour;
template <>
struct RawFour<float> {
  using Type = float4;
};
template <>
struct RawFour<Bfloat16> {
  using Type = uint2;
};

__device__ __forceinline__ float4 four_of(const float4& x) { return x; }
__device__ __forceinline__ float4 four_of(const uint2& words) {
  float4 x;
  widen(words.x, x.x, x.y);
  widen(words.y, x.z, x.w);
  return x;
}

__device__ __forceinline__ void store_four(float* to, const float4& x) { *reinterpret_cast<float4*>(to) = x; }

__device__ __forceinline__ void store_four(Bfloat16* to, const float4& x) {
  *reinterpret_cast<uint2*>(to) = {narrow(x.x, x.y), narrow(x.z, x.w)};
}

/// A warp is a head of a position.
__global__ void __launch_bounds__(kThreads) unit_heads_gradient_kernel(const __grid_constant__ UnitHeadsGradient a) {
  const std::int64_t head = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;  // (b L + t) H + h
  if (head >= a.batch * a.length * a.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = head / a.heads;
  const std::int64_t b = row / a.length;
  const std::int64_t t = row % a.length;
  const std::int64_t h = head % a.heads;
  const float* const from = a.x + b * a.batch_stride + t * a.row_stride + h * a.head_dim;
  const float* const gradient = a.out_gradient + b * a.out_batch_stride + t * a.out_row_stride + h * a.out_head_stride;
  float4 x[kHeadPieces];
  float4 dy[kHeadPieces];
  float square = 0;
  float product = 0;
#pragma unroll
  for (int p = 0; p < kHeadPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    x[p] = dy[p] = float4{0, 0, 0, 0};
    if (column < a.head_dim) {
      x[p] = load_four(from + column);
      dy[p] = load_four(gradient + column);
    }
    square += squares(x[p]);
    product += dot(x[p], dy[p]);
  }
  const float r = rsqrtf(sum_of_warp(square) + a.epsilon);
  const float along = sum_of_warp(product) * r * r;
#pragma unroll
  for (int p = 0; p < kHeadPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    if (column >= a.head_dim) break;
    const float4 across = add(dy[p], times(x[p], -along));
    store_four(a.x_gradient + head * a.head_dim + column, times(across, a.factor * r));
  }
}

/// A block is some positions, one after the other; a thread has pieces of four numbers, a block's width apart.
template <class T, class Gate>
__global__ void __launch_bounds__(kWideThreads, 2)
    linear_output_gradient_kernel(const __grid_constant__ LinearOutputGradient a) {
  __shared__ float square_of_piece[kWideThreads * kWidePieces];
  __shared__ float product_of_piece[kWideThreads * kWidePieces];
  __shared__ float scale_of_group[kWideThreads * kWidePieces];
  __shared__ float mean_of_group[kWideThreads * kWidePieces];
  const std::int64_t rows = a.batch * a.length;
  const auto width = static_cast<int>(a.heads * a.head_dim);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto of_norm = static_cast<int>(a.norm_size / 4);
  const std::int64_t first = std::int64_t{blockIdx.x} * kRowsOfPart;
  float4 norm_sum[kWidePieces];
  float4 skip_sum[kWidePieces];
#pragma unroll
  for (int p = 0; p < kWidePieces; ++p) norm_sum[p] = skip_sum[p] = float4{0, 0, 0, 0};
  for (std::int64_t row = first; row < min(first + kRowsOfPart, rows); ++row) {
    const std::int64_t b = row / a.length;
    const std::int64_t t = row % a.length;
    const Gate* gate = nullptr;
    if (a.gate != nullptr) gate = static_cast<const Gate*>(a.gate) + b * a.gate_batch_stride + t * a.gate_row_stride;
    float4 y[kWidePieces];  // with its skip
    typename RawFour<Gate>::Type z[kWidePieces];
    uint2 out[kWidePieces];  // the gradient by the output
#pragma unroll
    for (int p = 0; p < kWidePieces; ++p) {
      const int piece = p * kWideThreads + thread;
      if (piece * 4 >= width) break;
      out[p] = *reinterpret_cast<const uint2*>(static_cast<const Bfloat16*>(a.out_gradient) + row * width + piece * 4);
      if (gate != nullptr) z[p] = *reinterpret_cast<const typename RawFour<Gate>::Type*>(gate + piece * 4);
      y[p] = load_output<T>(a, b, t, piece * 4);
    }
    // What the norm reads, and the gradient by what it gives.
    const auto normed_at = [&](int p, float4& x, float4& dn) {
      x = y[p];
      dn = four_of(out[p]);
      if (gate == nullptr) return;
      if (a.gate_before_norm) {
        apply_silu(x, four_of(z[p]));
      } else {
        apply_silu(dn, four_of(z[p]));
      }
    };
#pragma unroll
    for (int p = 0; p < kWidePieces; ++p) {
      const int piece = p * kWideThreads + thread;
      if (piece * 4 >= width || of_norm == 0) break;
      float4 x;
      float4 dn;
      normed_at(p, x, dn);
      square_of_piece[piece] = squares(x);
      product_of_piece[piece] = dot(times(dn, load_four(a.norm + piece * 4)), x);
    }
    if (of_norm > 0) {
      __syncthreads();
      for (int group = thread / 32; group < width / 4 / of_norm; group += kWideWarps) {
        float square = 0;
        float product = 0;
        for (int piece = thread % 32; piece < of_norm; piece += 32) {
          square += square_of_piece[group * of_norm + piece];
          product += product_of_piece[group * of_norm + piece];
        }
        square = sum_of_warp(square) / static_cast<float>(a.norm_size);
        product = sum_of_warp(product) / static_cast<float>(a.norm_size);
        if (thread % 32 == 0) {
          scale_of_group[group] = rsqrtf(square + a.epsilon);
          mean_of_group[group] = product;
        }
      }
      __syncthreads();
    }
    const std::int64_t of_row = b * a.gradient_batch_stride + t * a.gradient_row_stride;
#pragma unroll
    for (int p = 0; p < kWidePieces; ++p) {
      const int piece = p * kWideThreads + thread;
      const int column = piece * 4;
      if (column >= width) break;
      float4 normed;
      float4 dn;
      normed_at(p, normed, dn);
      float4 dx = dn;
      if (of_norm > 0) {
        const float4 weight = load_four(a.norm + column);
        const float r = scale_of_group[piece / of_norm];
        normed = times(normed, r);
        norm_sum[p] = add(norm_sum[p], times(dn, normed));
        dx = add(times(times(dn, weight), r), times(normed, -r * r * mean_of_group[piece / of_norm]));
        normed = times(normed, weight);
      }
      if (gate != nullptr) {
        const float4 logit = four_of(z[p]);
        float4 dz = silu_slope(logit);
        if (a.gate_before_norm) {
          dz = times(times(dz, dx), y[p]);
          apply_silu(dx, logit);
        } else {
          dz = times(times(dz, four_of(out[p])), normed);
        }
        store_four(static_cast<Gate*>(a.gate_gradient) + row * width + column, dz);
      }
      const std::int64_t h = column / a.head_dim;
      const std::int64_t place = of_row + h * a.gradient_head_stride + column % a.head_dim;
      store_four(static_cast<T*>(a.y_gradient) + place, dx);
      if (a.value == nullptr) continue;
      const float4 v = load_four(a.value + b * a.value_batch_stride + h * a.value_head_stride + t * a.value_row_stride +
                                 column % a.head_dim);
      skip_sum[p] = add(skip_sum[p], times(dx, v));
      const float4 skip =
          a.skip_by_channel ? load_four(a.skip + column) : float4{a.skip[h], a.skip[h], a.skip[h], a.skip[h]};
      store_four(a.value_gradient + place, times(dx, skip));
    }
  }
#pragma unroll
  for (int p = 0; p < kWidePieces; ++p) {
    const int column = (p * kWideThreads + thread) * 4;
    if (column >= width) break;
    const std::int64_t place = std::int64_t{blockIdx.x} * width + column;
    if (of_norm > 0) store_four(a.norm_parts + place, norm_sum[p]);
    if (a.value != nullptr) store_four(a.skip_parts + place, skip_sum[p]);
  }
}

}  // namespace

Status unit_heads_gradient(const UnitHeadsGradient& a, Stream stream) {
  if (!is_valid(a) || a.out_gradient == nullptr || !aligned_16(a.out_gradient) ||
      !all_fours({a.out_batch_stride, a.out_row_stride, a.out_head_stride}) || a.x_gradient == nullptr ||
      !aligned_16(a.x_gradient)) {
    return Status::invalid_argument;
  }
  const std::int64_t blocks = (a.batch * a.length * a.heads + kWarps - 1) / kWarps;
  if (blocks >= kMostBlocks) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  unit_heads_gradient_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return launched();
}

std::int64_t linear_output_parts(const LinearOutput& a) { return (a.batch * a.length + kRowsOfPart - 1) / kRowsOfPart; }

Status linear_output_gradient(const LinearOutputGradient& a, Stream stream) {
  if (!is_valid(a) || a.out_gradient == nullptr || a.y_gradient == nullptr || !aligned_16(a.out_gradient) ||
      !aligned_16(a.y_gradient) ||
      !all_fours({a.gradient_batch_stride, a.gradient_head_stride, a.gradient_row_stride}) ||
      (a.value != nullptr && (a.value_gradient == nullptr || a.skip_parts == nullptr)) ||
      (a.gate != nullptr && a.gate_gradient == nullptr) || (a.norm_size > 0 && a.norm_parts == nullptr) ||
      !aligned_16(a.value_gradient) || !aligned_16(a.gate_gradient) || !aligned_16(a.norm_parts) ||
      !aligned_16(a.skip_parts)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto blocks = static_cast<unsigned>(linear_output_parts(a));
  const auto launch = [&](auto kernel) { kernel<<<blocks, kWideThreads, 0, stream>>>(a); };
  const bool wide_gate = a.gate_type == ElementType::float32;
  if (a.y_type == ElementType::float32) {
    launch(wide_gate ? linear_output_gradient_kernel<float, float> : linear_output_gradient_kernel<float, Bfloat16>);
  } else {
    launch(wide_gate ? linear_output_gradient_kernel<Bfloat16, float>
                     : linear_output_gradient_kernel<Bfloat16, Bfloat16>);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
