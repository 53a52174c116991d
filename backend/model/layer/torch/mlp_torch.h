#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/mixture_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

namespace foxscope {

/// The units of an MLP of what its first product made.
/// @param wide  [rows, 2 I] of the gate, then up; without a gate [rows, I]
[[nodiscard]] at::Tensor mlp_units(const ModelConfig& config, const at::Tensor& wide);

/// The term that a layer's MLP or mixture of experts adds to rows of x: down(silu(g) * u) of norm(x), or down(gelu(u)),
/// by LibTorch's operations.
/// @param rows  [rows, D] float32
/// @param take  gets the experts that were chosen; may be empty
[[nodiscard]] at::Tensor mlp_output(const TorchPass& pass, int layer, const at::Tensor& rows,
                                    const TakeChoice& take = {});

/// x += mlp_output of all rows, in new memory where a backward pass reads x (TorchPass::keep_sums_apart).
void add_whole_mlp(TorchPass& pass, int layer, const TakeChoice& take);

/// x += mlp_output in place, a block of rows at a time.
void add_mlp(TorchPass& pass, int layer);

/// The rows of the position before each, 0 before the first of a text; the states take the last rows up (RWKV-7).
/// @param which  of the two that a layer's state holds: the mixer's, the MLP's
/// @param rows   [B, n, D] float32
at::Tensor previous_rows(const TorchPass& pass, int layer, std::int64_t which, const at::Tensor& rows);

/// The rows of the position before each, 0 before the first of a text; the states take the last rows up (RWKV-7).
/// @param which  of the two that a layer's state holds: the mixer's, the MLP's
/// @param rows   [B, n, D] float32
at::Tensor previous_rows(const TorchPass& pass, int layer, std::int64_t which, const at::Tensor& rows);

}  // namespace foxscope
