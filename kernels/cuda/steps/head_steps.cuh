// Steps of a head on its way into attention, in the lanes that hold it. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/head_access.cuh"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda {

/// 1 / rms of a head.
__device__ __forceinline__ float norm_factor(const RowChunk& x, int lanes, float inverse_head_dim, float epsilon) {
  float squares = 0;
#pragma unroll
  for (float value : x) squares += value * value;
  return rsqrtf(sum_over_head(squares, lanes) * inverse_head_dim + epsilon);
}

/// Turns four pairs.
__device__ __forceinline__ void rotate(RowChunk& x, const RawChunk<float>& table) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float cosine = table.numbers[2 * i];
    const float sine = table.numbers[2 * i + 1];
    const float low = x[i];
    x[i] = low * cosine - x[4 + i] * sine;
    x[4 + i] = x[4 + i] * cosine + low * sine;
  }
}

}  // namespace foxscope::kernels::cuda
