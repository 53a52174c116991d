#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/cuda_pass_torch.h"

/// Logits and losses in bfloat16 on a GPU.
namespace foxscope {

/// Logits [rows, V] float32.
/// @param normed  [rows, D] bf16 behind the final norm
[[nodiscard]] at::Tensor cuda_logits(const CudaPass& pass, const at::Tensor& normed);

/// Losses and logits of all rows, as far as the probes keep them, in blocks of logits.
/// @param normed  [B n, D] bf16 behind the final norm
/// @returns false if the job was stopped
bool record_cuda_predictions(CudaPass& pass, const at::Tensor& normed);

}  // namespace foxscope
