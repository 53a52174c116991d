#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/forward.h"
#include "backend/model/layer/torch/torch_pass_torch.h"

/// Losses, scores and next tokens of x behind the last layer, by LibTorch's operations.
namespace foxscope {

/// x of the rows from one on behind the final norm, [rows, D] in the run's dtype.
[[nodiscard]] at::Tensor final_norm_of(const TorchPass& pass, std::int64_t first_row);

/// Logits [rows, V] float32 of rows [rows, D] behind the final norm, in the run's dtype.
using MakeLogits = std::function<at::Tensor(const at::Tensor& normed)>;
[[nodiscard]] at::Tensor logits_of(const TorchWeights& weights, const at::Tensor& normed);

/// Losses and logits of all rows, as far as the probes keep them, in blocks of logits.
/// @param normed  [B n, D] behind the final norm
/// @returns false if the job was stopped
bool record_predictions(TorchPass& pass, const at::Tensor& normed, const MakeLogits& make_logits);

/// The predictions behind each row; log p stays on the logits' device until it is asked for.
/// @param logits  [rows, V]
NextTokens next_tokens(const at::Tensor& logits);

/// Forward::score of rows, in blocks of logits.
/// @param normed  [B n, D] behind the final norm
/// @returns false if the job was stopped
bool score_rows(const at::Tensor& normed, const MakeLogits& make_logits, std::int64_t vocabulary,
                std::span<const Forward::ScoredRow> scored, int top, const Job& job);

}  // namespace foxscope
