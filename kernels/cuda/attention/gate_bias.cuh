// The gate as a slice of Q K^T. Private to kernels/cuda.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"

namespace foxscope::kernels::cuda {

/// bias[j] = (c_last - c_j) / scale in three bfloat16 terms and five zeros, c_last the gate at the last key of j's
/// block. The difference is taken in float64. Keys far from the block's end, for which 24 bits say least, are for later
/// rows those whose weight the gate has taken; for rows beside them see kMostSliceFall.
/// @param gate   [rows, length] cumulative, nats; null: all ones
/// @param bias   [rows, padded, 8] bf16, zeros from `length` on
/// @param counters  set to zeros in passing
__global__ void gate_bias(const double* gate, int length, int padded, int keys, double inverse_scale, uint4* bias,
                          AttentionCounters* counters) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (j >= padded) return;
  const std::int64_t row = blockIdx.y;
  if (row == 0 && j == 0) *counters = {};
  uint4 terms = {0, 0, 0, 0};
  if (gate != nullptr && j < length) {
    const double* c = gate + row * length;
    const auto b = static_cast<float>((c[min((j / keys + 1) * keys, length) - 1] - c[j]) * inverse_scale);
    const __nv_bfloat16 high = __float2bfloat16_rn(b);
    const float rest = b - __bfloat162float(high);
    const __nv_bfloat16 middle = __float2bfloat16_rn(rest);
    const __nv_bfloat16 low = __float2bfloat16_rn(rest - __bfloat162float(middle));
    terms.x = static_cast<unsigned>(__bfloat16_as_ushort(high)) | static_cast<unsigned>(__bfloat16_as_ushort(middle))
                                                                      << 16;
    terms.y = __bfloat16_as_ushort(low);
  }
  bias[row * padded + j] = terms;
}

}  // namespace foxscope::kernels::cuda
