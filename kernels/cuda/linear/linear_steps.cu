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

constexpr int kRowsOfBlock = 8;  // of linear_output

/// A block is some positions, one after the other; a thread has four columns. The next position is read ahead.
template <class T, class Gate>
__global__ void __launch_bounds__(kMostOutputThreads) linear_output_kernel(const __grid_constant__ LinearOutput a) {
  __shared__ float sums[2][kMostOutputThreads];
  const auto width = static_cast<int>(a.heads * a.head_dim);
  const int column = static_cast<int>(threadIdx.x) * 4;
  const auto of_norm = static_cast<int>(a.norm_size / 4);
  int row = static_cast<int>(blockIdx.x) * kRowsOfBlock;
  const int end = min(row + kRowsOfBlock, static_cast<int>(a.batch * a.length));
  OutputColumns<T, Gate> columns(a, column, row);
  float4 weight{1, 1, 1, 1};
  if (of_norm > 0 && columns.active) weight = load_four(a.norm + column);
  auto* out = static_cast<Bfloat16*>(a.out) + std::int64_t{row} * width + column;
  OutputFour<T, Gate> next = columns.load();
  for (; row < end; ++row, out += width) {
    const OutputFour<T, Gate> four = next;
    columns.step(a);
    if (row + 1 < end) next = columns.load();
    float4 x = columns.output(four);
    if (columns.z != nullptr && a.gate_before_norm) apply_silu(x, four_of(four.z));
    if (of_norm > 0) {
      float sum[1] = {squares(x)};
      sum_of_norms(sum, of_norm, columns.active, sums[row % 2]);
      scale(x, rsqrtf(sum[0] / static_cast<float>(a.norm_size) + a.epsilon));
      x = times(x, weight);
    }
    if (columns.z != nullptr && !a.gate_before_norm) apply_silu(x, four_of(four.z));
    if (columns.active) *reinterpret_cast<uint2*>(out) = {narrow(x.x, x.y), narrow(x.z, x.w)};
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
  const auto blocks = static_cast<unsigned>((a.batch * a.length + kRowsOfBlock - 1) / kRowsOfBlock);
  const auto launch = [&](auto kernel) { kernel<<<blocks, output_threads(a), 0, stream>>>(a); };
  const bool wide_gate = a.gate_type == ElementType::float32;
  if (a.y_type == ElementType::float32) {
    launch(wide_gate ? linear_output_kernel<float, float> : linear_output_kernel<float, Bfloat16>);
  } else {
    launch(wide_gate ? linear_output_kernel<Bfloat16, float> : linear_output_kernel<Bfloat16, Bfloat16>);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
