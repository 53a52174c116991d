#pragma once

#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/attention_kernels_torch.h"

namespace foxscope {

struct DifferentiableAttentionResult {
  at::Tensor output;                       ///< [B, H, n, d] in the query's dtype, rows before heads in memory
  at::Tensor log_normalizer;               ///< [B, H, n] float32, nats; without a gradient
  at::Tensor log_normalizer_without_gate;  ///< likewise; undefined where it was not wanted
  AttentionDone done;
};

/// Forgetting attention by the kernels as an operation of LibTorch's autograd: gradients of queries, keys, values and
/// log f. Where log f lies below kLowestLogGate, at which it is held, its gradient is 0.
/// @param tensors       output and normalisers are not looked at; gradients go through query, key and value
/// @param log_gate      [B, H, n] float64, nats, of which `cumulative` is the sum
/// @param without_gate  whether the normalisers without the gate are wanted too
/// @returns nothing if it was stopped
/// @throws Error where a kernel is refused
std::optional<DifferentiableAttentionResult> differentiable_attention(const AttentionTensors& tensors,
                                                                      const at::Tensor& log_gate, bool without_gate,
                                                                      const std::stop_token& stop);

}  // namespace foxscope
