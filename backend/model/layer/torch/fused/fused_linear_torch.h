#pragma once

#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/kept_results_torch.h"

namespace foxscope {

/// Whether fused_linear_mixing takes them: on a GPU with matrices in bfloat16, heads that read queries and keys in the
/// same groups and values of their own, widths that are multiples of 8 and keys' of at most 256, at least a chunk, and
/// a decay a head, a channel or the delta rule. The last two are differentiated where the GPU has the shared memory:
/// keys of 256 need 204 KB and 134 KB a block.
bool fused_linear_takes(const LinearOperands& operands, at::ScalarType matrix);

/// composed_linear_mixing on a GPU: products of bfloat16 with what stands between them fused (kernels/cuda), decays
/// from sums in float64 within chunks of 64, sums between chunks in float32. Differentiable by all operands, from no
/// state before the first position; then the state is left undefined where channels decay and of the delta rule.
/// @param kept  may be null; of a decay a channel it keeps the chunks' matrices, of the delta rule what its pass over
///              the chunks makes, of either the states before them and y
/// @returns y as composed_linear_mixing, in bfloat16
/// @pre fused_linear_takes
std::optional<at::Tensor> fused_linear_mixing(const LinearOperands& operands, at::Tensor& state,
                                              const std::stop_token& stop, KeptResults* kept = nullptr);

}  // namespace foxscope
