#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// Gets the experts that rows chose [rows, k] int64, and what these are multiplied by [rows, k] float32; gives what
/// they are to be multiplied by.
using TakeChoice = std::function<at::Tensor(const at::Tensor& experts, const at::Tensor& weights)>;

/// The weights of experts without those that probes drop.
/// @param first  row of all B n that the first is
[[nodiscard]] at::Tensor without_dropped(const TorchPass& pass, int layer, std::int64_t first,
                                         const at::Tensor& experts, const at::Tensor& weights);

/// sum_T w_e expert_e(n) of a layer's mixture of experts (ExpertMixture), without the expert that all rows read, by
/// LibTorch's operations.
/// @param normed  [rows, D] float32 n
/// @param take    may be empty
[[nodiscard]] at::Tensor mixture_output(const TorchPass& pass, int layer, const at::Tensor& normed,
                                        const TakeChoice& take);

}  // namespace foxscope
