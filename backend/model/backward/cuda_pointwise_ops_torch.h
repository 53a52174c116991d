#pragma once

#include <cstdint>
#include <memory>

#include "backend/model/backward/pointwise_ops_torch.h"

namespace foxscope {

/// The pointwise operations on the current GPU in bfloat16, asynchronous on LibTorch's current stream.
std::unique_ptr<PointwiseOps> make_cuda_pointwise_ops(const TorchWeights& weights, std::int64_t length);

}  // namespace foxscope
