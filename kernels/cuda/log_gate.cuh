// log f of a forget gate's logit. Private to kernels/cuda.
#pragma once

#include <cmath>

namespace foxscope::kernels::cuda {

constexpr double kLowestLogGate = -1000;

__device__ __forceinline__ double log_sigmoid(double x) { return fmin(x, 0.0) - log1p(exp(-fabs(x))); }

/// Within [-1000, 0]; NaN stays NaN.
__device__ __forceinline__ double held(double log_gate) {
  return log_gate < kLowestLogGate ? kLowestLogGate : log_gate > 0 ? 0.0 : log_gate;
}

}  // namespace foxscope::kernels::cuda
