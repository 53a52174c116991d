#include <cuda_bf16.h>

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/linear_steps.h"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kPieces = 4;          // of four numbers, of a thread
constexpr int kMostHeadDim = 1024;  // of unit heads
constexpr int kHeadPieces = kMostHeadDim / 128;
constexpr int kMostWidth = kThreads * kPieces * 4;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

__device__ __forceinline__ float squares(const float4& x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

__device__ __forceinline__ float4 load_four(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ __forceinline__ void scale(float4& x, float factor) {
  x.x *= factor;
  x.y *= factor;
  x.z *= factor;
  x.w *= factor;
}

__device__ __forceinline__ void apply_silu(float4& x, const float4& z) {
  x.x *= z.x * sigmoid(z.x);
  x.y *= z.y * sigmoid(z.y);
  x.z *= z.z * sigmoid(z.z);
  x.w *= z.w * sigmoid(z.w);
}

/// A warp is a head of a position.
__global__ void __launch_bounds__(kThreads) unit_heads_kernel(const __grid_constant__ UnitHeads a) {
  const std::int64_t head = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;  // (b L + t) H + h
  if (head >= a.batch * a.length * a.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = head / a.heads;
  const float* from =
      a.x + row / a.length * a.batch_stride + row % a.length * a.row_stride + head % a.heads * a.head_dim;
  float4 x[kHeadPieces];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kHeadPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    x[p] = float4{0, 0, 0, 0};
    if (column < a.head_dim) x[p] = load_four(from + column);
    sum += squares(x[p]);
  }
  const float factor = a.factor * rsqrtf(sum_of_warp(sum) + a.epsilon);
#pragma unroll
  for (int p = 0; p < kHeadPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    if (column >= a.head_dim) break;
    scale(x[p], factor);
    *reinterpret_cast<float4*>(a.out + head * a.head_dim + column) = x[p];
  }
}

__device__ __forceinline__ float4 load_four(const Bfloat16* from) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  float4 x;
  widen(words.x, x.x, x.y);
  widen(words.y, x.z, x.w);
  return x;
}

/// y, with its skip and a gate before the norm.
template <class T>
__device__ __forceinline__ float4 load_output(const LinearOutput& a, std::int64_t b, std::int64_t t, int column) {
  const std::int64_t h = column / a.head_dim;
  const std::int64_t in_head = column % a.head_dim;
  float4 x =
      load_four(static_cast<const T*>(a.y) + b * a.batch_stride + h * a.head_stride + t * a.row_stride + in_head);
  if (a.value != nullptr) {
    const float4 v =
        load_four(a.value + b * a.value_batch_stride + h * a.value_head_stride + t * a.value_row_stride + in_head);
    float4 factor;
    if (a.skip_by_channel) {
      factor = load_four(a.skip + column);
    } else {
      factor.x = factor.y = factor.z = factor.w = a.skip[h];
    }
    x.x += factor.x * v.x;
    x.y += factor.y * v.y;
    x.z += factor.z * v.z;
    x.w += factor.w * v.w;
  }
  return x;
}

/// A block is a position; a thread has pieces of four numbers, a block's width apart.
template <class T, class Gate>
__global__ void __launch_bounds__(kThreads) linear_output_kernel(const __grid_constant__ LinearOutput a) {
  __shared__ float of_piece[kThreads * kPieces];
  __shared__ float of_group[kThreads * kPieces];
  const std::int64_t b = blockIdx.x / a.length;
  const std::int64_t t = blockIdx.x % a.length;
  const auto width = static_cast<int>(a.heads * a.head_dim);
  const auto thread = static_cast<int>(threadIdx.x);
  const Gate* gate = nullptr;
  if (a.gate != nullptr) gate = static_cast<const Gate*>(a.gate) + b * a.gate_batch_stride + t * a.gate_row_stride;
  float4 x[kPieces];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int piece = p * kThreads + thread;
    x[p] = float4{0, 0, 0, 0};
    if (piece * 4 >= width) break;
    x[p] = load_output<T>(a, b, t, piece * 4);
    if (gate != nullptr && a.gate_before_norm) apply_silu(x[p], load_four(gate + piece * 4));
    of_piece[piece] = squares(x[p]);
  }
  const auto of_norm = static_cast<int>(a.norm_size / 4);
  if (of_norm > 0) {
    __syncthreads();
    for (int group = thread / 32; group < width / 4 / of_norm; group += kWarps) {
      float sum = 0;
      for (int piece = thread % 32; piece < of_norm; piece += 32) sum += of_piece[group * of_norm + piece];
      sum = sum_of_warp(sum);
      if (thread % 32 == 0) of_group[group] = rsqrtf(sum / static_cast<float>(a.norm_size) + a.epsilon);
    }
    __syncthreads();
  }
  auto* out = static_cast<Bfloat16*>(a.out) + std::int64_t{blockIdx.x} * width;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int piece = p * kThreads + thread;
    if (piece * 4 >= width) break;
    if (of_norm > 0) {
      const float4 weight = load_four(a.norm + piece * 4);
      scale(x[p], of_group[piece / of_norm]);
      x[p].x *= weight.x;
      x[p].y *= weight.y;
      x[p].z *= weight.z;
      x[p].w *= weight.w;
    }
    if (gate != nullptr && !a.gate_before_norm) apply_silu(x[p], load_four(gate + piece * 4));
    *reinterpret_cast<uint2*>(out + piece * 4) = {narrow(x[p].x, x[p].y), narrow(x[p].z, x[p].w)};
  }
}

bool all_fours(std::initializer_list<std::int64_t> strides) {
  for (const std::int64_t stride : strides) {
    if (stride % 4 != 0) return false;
  }
  return true;
}

}  // namespace

Status unit_heads(const UnitHeads& a, Stream stream) {
  if (a.batch < 1 || a.length < 1 || a.heads < 1 || a.head_dim < 4 || a.head_dim > kMostHeadDim ||
      !all_fours({a.head_dim, a.batch_stride, a.row_stride}) || a.row_stride < a.heads * a.head_dim ||
      !(a.epsilon >= 0) || a.x == nullptr || a.out == nullptr || !aligned_16(a.x) || !aligned_16(a.out)) {
    return Status::invalid_argument;
  }
  const std::int64_t blocks = (a.batch * a.length * a.heads + kWarps - 1) / kWarps;
  if (blocks >= kMostBlocks) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  unit_heads_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return launched();
}

Status linear_output(const LinearOutput& a, Stream stream) {
  if (a.batch < 1 || a.length < 1 || a.heads < 1 || a.head_dim < 4 || a.batch * a.length >= kMostBlocks ||
      a.heads * a.head_dim > kMostWidth || a.y == nullptr || a.out == nullptr || !aligned_16(a.y) ||
      !aligned_16(a.out) ||
      !all_fours({a.head_dim, a.batch_stride, a.head_stride, a.row_stride, a.value_batch_stride, a.value_head_stride,
                  a.value_row_stride, a.gate_batch_stride, a.gate_row_stride, a.norm_size})) {
    return Status::invalid_argument;
  }
  if (a.value != nullptr && (!aligned_16(a.value) || a.skip == nullptr || !aligned_16(a.skip))) {
    return Status::invalid_argument;
  }
  if (a.gate != nullptr && !aligned_16(a.gate)) return Status::invalid_argument;
  if (a.norm_size != 0 && (a.norm_size < 0 || a.heads * a.head_dim % a.norm_size != 0 || a.norm == nullptr ||
                           !aligned_16(a.norm) || !(a.epsilon >= 0))) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto blocks = static_cast<unsigned>(a.batch * a.length);
  const auto launch = [&](auto kernel) { kernel<<<blocks, kThreads, 0, stream>>>(a); };
  const bool wide_gate = a.gate_type == ElementType::float32;
  if (a.y_type == ElementType::float32) {
    launch(wide_gate ? linear_output_kernel<float, float> : linear_output_kernel<float, Bfloat16>);
  } else {
    launch(wide_gate ? linear_output_kernel<Bfloat16, float> : linear_output_kernel<Bfloat16, Bfloat16>);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
