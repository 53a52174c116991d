#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// The term that a layer's MLP adds to rows of x: down(silu(g) * u) of norm(x), or down(gelu(u)), by LibTorch's
/// operations.
/// @param rows  [rows, D] float32
[[nodiscard]] at::Tensor mlp_output(const TorchPass& pass, int layer, const at::Tensor& rows);

/// x += mlp_output in place, a block of rows at a time.
void add_mlp(TorchPass& pass, int layer);

}  // namespace foxscope
