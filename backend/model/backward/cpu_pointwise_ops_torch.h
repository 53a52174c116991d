#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/backward/pointwise_ops_torch.h"

namespace foxscope {

/// The pointwise operations on the CPU in float32, on LibTorch's team of threads.
std::unique_ptr<PointwiseOps> make_cpu_pointwise_ops(const TorchWeights& weights, std::int64_t length);

}  // namespace foxscope
