#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/steps/steps.h"
#include "tests/kernels/cuda_support.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {

using cuda::ElementType;

inline constexpr auto kBfloat16 = ElementType::bfloat16;
inline constexpr auto kFloat32 = ElementType::float32;
inline constexpr float kEpsilon = 1e-5F;

using Numbers = std::vector<double>;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// x / rms(x) * weight over `width` numbers; weight may be null.
inline void normalise(double* x, const double* weight, std::int64_t width) {
  double squares = 0;
  for (std::int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
  const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(kEpsilon));
  for (std::int64_t i = 0; i < width; ++i) x[i] *= factor * weight[i];
}

class CudaSteps : public CudaTest {};

}  // namespace foxscope::kernels::testing
