#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/backward/small_steps_torch.h"

namespace foxscope {

/// The small steps on the current GPU in bfloat16, asynchronous on LibTorch's current stream.
std::unique_ptr<SmallSteps> make_cuda_small_steps(const TorchWeights& weights, std::int64_t length);

}  // namespace foxscope
