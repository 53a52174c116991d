// 2^x by the special function unit. Private to kernels/cuda.
#pragma once

namespace foxscope::kernels::cuda {

/// 2^x, relative error 2^-22; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace foxscope::kernels::cuda
