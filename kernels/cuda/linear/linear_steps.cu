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

}  // namespace

Status unit_heads(const UnitHeads& a, Stream stream) {
  if (!is_valid(a) || a.out == nullptr || !aligned_16(a.out)) return Status::invalid_argument;
  const std::int64_t blocks = (a.batch * a.length * a.heads + kWarps - 1) / kWarps;
  if (blocks >= kMostBlocks) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  unit_heads_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return launched();
}

Status linear_output(const LinearOutput& a, Stream stream) {
  if (!is_valid(a) || a.out == nullptr || !aligned_16(a.out)) return Status::invalid_argument;
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
