#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/backward/small_steps_torch.h"

namespace foxscope {

/// The small steps on the CPU in float32, on LibTorch's team of threads.
std::unique_ptr<SmallSteps> make_cpu_small_steps(const TorchWeights& weights, std::int64_t length);

}  // namespace foxscope
