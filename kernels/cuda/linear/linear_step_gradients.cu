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
constexpr int kNarrowThreads = 768;

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

/// A block is some positions, one after the other; a thread has four columns. The next position is read ahead.
/// @tparam kMost  threads: fewer have more registers
template <class T, class Gate, int kMost>
__global__ void __launch_bounds__(kMost) linear_output_gradient_kernel(const __grid_constant__ LinearOutputGradient a) {
  __shared__ float sums[2][2 * kMostOutputThreads];
  const auto width = static_cast<int>(a.heads * a.head_dim);
  const int column = static_cast<int>(threadIdx.x) * 4;
  const auto of_norm = static_cast<int>(a.norm_size / 4);
  int row = static_cast<int>(blockIdx.x) * kRowsOfPart;
  const int end = min(row + kRowsOfPart, static_cast<int>(a.batch * a.length));
  OutputColumns<T, Gate> columns(a, column, row);
  float4 weight{1, 1, 1, 1};
  if (of_norm > 0 && columns.active) weight = load_four(a.norm + column);
  const auto load_out = [&](int of_row) {
    if (!columns.active) return uint2{0, 0};
    return load_raw(static_cast<const Bfloat16*>(a.out_gradient) + std::int64_t{of_row} * width + column);
  };
  float4 norm_sum{0, 0, 0, 0};
  float4 skip_sum{0, 0, 0, 0};
  OutputFour<T, Gate> next = columns.load();
  uint2 next_out = load_out(row);
  for (; row < end; ++row) {
    const OutputFour<T, Gate> four = next;
    const float4 out = four_of(next_out);
    const std::int64_t of_row = columns.b * a.gradient_batch_stride + columns.t * a.gradient_row_stride;
    columns.step(a);
    if (row + 1 < end) {
      next = columns.load();
      next_out = load_out(row + 1);
    }
    const bool gate_first = columns.z != nullptr && a.gate_before_norm;
    const bool gate_last = columns.z != nullptr && !a.gate_before_norm;
    // What the norm reads, and the gradient by what it gives.
    float4 normed = columns.output(four);
    float4 dx = out;
    if (gate_first) apply_silu(normed, four_of(four.z));
    if (gate_last) apply_silu(dx, four_of(four.z));
    if (of_norm > 0) {
      float sum[2] = {squares(normed), dot(times(dx, weight), normed)};
      sum_of_norms(sum, of_norm, columns.active, sums[row % 2]);
      const float r = rsqrtf(sum[0] / static_cast<float>(a.norm_size) + a.epsilon);
      normed = times(normed, r);
      norm_sum = add(norm_sum, times(dx, normed));
      dx = add(times(times(dx, weight), r), times(normed, -r * r * (sum[1] / static_cast<float>(a.norm_size))));
      normed = times(normed, weight);
    }
    if (!columns.active) continue;
    if (columns.z != nullptr) {
      const float4 logit = four_of(four.z);
      float4 dz = silu_slope(logit);
      if (gate_first) {
        dz = times(times(dz, dx), columns.output(four));
        apply_silu(dx, logit);
      } else {
        dz = times(times(dz, out), normed);
      }
      store_four(static_cast<Gate*>(a.gate_gradient) + std::int64_t{row} * width + column, dz);
    }
    const std::int64_t place = of_row + columns.head * a.gradient_head_stride + columns.of_head;
    store_four(static_cast<T*>(a.y_gradient) + place, dx);
    if (columns.v == nullptr) continue;
    skip_sum = add(skip_sum, times(dx, four.v));
    store_four(a.value_gradient + place, times(dx, columns.skip));
  }
  if (!columns.active) return;
  const std::int64_t of_part = std::int64_t{blockIdx.x} * width + column;
  if (of_norm > 0) store_four(a.norm_parts + of_part, norm_sum);
  if (a.value != nullptr) store_four(a.skip_parts + of_part, skip_sum);
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
  const unsigned threads = output_threads(a);
  const auto launch = [&]<class T, class Gate>(T, Gate) {
    const auto kernel = threads <= kNarrowThreads ? linear_output_gradient_kernel<T, Gate, kNarrowThreads>
                                                  : linear_output_gradient_kernel<T, Gate, kMostOutputThreads>;
    kernel<<<blocks, threads, 0, stream>>>(a);
  };
  const bool wide_gate = a.gate_type == ElementType::float32;
  if (a.y_type == ElementType::float32) {
    wide_gate ? launch(float{}, float{}) : launch(float{}, Bfloat16{});
  } else {
    wide_gate ? launch(Bfloat16{}, float{}) : launch(Bfloat16{}, Bfloat16{});
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
