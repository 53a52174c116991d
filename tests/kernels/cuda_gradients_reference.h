#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/steps/step_gradients.h"
#include "tests/kernels/cuda_steps_reference.h"

namespace foxscope::kernels::testing {

/// d value() / dx by the difference of two values, to some 1e-9 of the value's size.
template <class Value>
double slope_at(double& x, const Value& value) {
  constexpr double kStep = 1e-5;
  const double at = x;
  x = at + kStep;
  const double above = value();
  x = at - kStep;
  const double below = value();
  x = at;
  return (above - below) / (2 * kStep);
}

/// Poisoned memory of as many bytes as a gradient asks for.
class GradientWorkspace {
 public:
  explicit GradientWorkspace(std::size_t bytes)
      : bytes_(bytes), numbers_(kFloat32, static_cast<std::int64_t>((bytes + 3) / 4)) {}
  [[nodiscard]] void* data() const { return bytes_ == 0 ? nullptr : numbers_.data(); }
  /// Throws where something beside it was written.
  void check() const { (void)numbers_.values(); }

 private:
  std::size_t bytes_;
  DeviceNumbers numbers_;
};

/// All outputs of a call.
using Outputs = std::vector<Numbers>;

class CudaStepGradients : public CudaTest {};

}  // namespace foxscope::kernels::testing
