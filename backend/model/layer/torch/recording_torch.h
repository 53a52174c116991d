#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

/// Recording of a pass's steps.
namespace foxscope {

/// x as it enters a layer, or behind the final norm.  @param rows  [B n, D] float32
void record_hidden(const TorchPass& pass, int layer, const at::Tensor& rows);

/// The state behind the final norm, for predictions.  @param rows  [B n, D] in the type that the head reads
void record_prediction_state(const TorchPass& pass, const at::Tensor& rows);

/// Records the operands of attention.
/// @param cumulative  [B, H, n] float64 c; undefined where every f is 1
void record_heads(TorchPass& pass, int layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& cumulative);

/// Records e and b, which pass keys of attention on.  @param read, write  [B, H_kv, n, d] float32
void record_erasing(TorchPass& pass, int layer, const at::Tensor& read, const at::Tensor& write);

/// Row normalisers of attention.
/// @param log_normalizer  [B, H, n] float32 nats; undefined where no probe keeps it
/// @param without_gate    likewise
void record_normalizers(TorchPass& pass, int layer, const at::Tensor& log_normalizer, const at::Tensor& without_gate);

/// Records the experts that a mixture chose.
/// @param experts  [B n, k] int64
/// @param weights  [B n, k] float32
void record_experts(TorchPass& pass, int layer, const at::Tensor& experts, const at::Tensor& weights);

/// Records the operands of a linear mixer.
void record_operands(TorchPass& pass, int layer, const LinearOperands& operands);

/// @param first   row of the first
/// @param logits  [rows, V] float32
void record_logits(const TorchPass& pass, std::int64_t first, const at::Tensor& logits);

/// @param loss  [B n] float32 nats
void record_losses(TorchPass& pass, const at::Tensor& loss);

}  // namespace foxscope
