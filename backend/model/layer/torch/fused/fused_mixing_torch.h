#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/kept_results_torch.h"

namespace foxscope {

/// y of mixers whose channels decay, each in its own way, [B, H, N, T, d_v] bfloat16 with zeros up to whole chunks
/// (fused_linear_mixing). Where it is differentiated, the state before the first position is 0 and none is given back.
at::Tensor fused_by_channel(const LinearOperands& operands, at::Tensor& state, KeptResults* kept);

/// Likewise of the delta rule.
at::Tensor fused_by_delta_rule(const LinearOperands& operands, at::Tensor& state, KeptResults* kept);

}  // namespace foxscope
