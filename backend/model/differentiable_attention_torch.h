#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/torch_weights_torch.h"

namespace foxscope {

/// Arguments of differentiable_attention.
struct DifferentiableAttention {
  at::Tensor query;     ///< [B, H, L, d] float32, or bfloat16 on a GPU
  at::Tensor key;       ///< [B, H_kv, L, d] likewise; query head h reads key head h / (H / H_kv)
  at::Tensor value;     ///< likewise
  at::Tensor log_gate;  ///< [B, H, L] float64, nats: what the loss is differentiated by
  /// [B, H, L] float64, its sums c; undefined where every f is 1. Has no gradient of its own.
  at::Tensor cumulative_log_gate;
  double scale = 0;                       ///< 1/sqrt(d)
  std::int64_t window_size = 0;           ///< row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;           ///< largest share of a row's attention that may be skipped; 0: none
  const std::stop_token* stop = nullptr;  ///< polled in the forward
};

struct DifferentiableAttentionResult {
  at::Tensor output;          ///< [B, H, L, d] in the query's dtype, rows before heads in memory
  at::Tensor log_normalizer;  ///< [B, H, L] float32, nats; without a gradient
  const char* kernel = "";    ///< as reports name it
  std::int64_t blocks = 0;    ///< pairs of blocks of rows and of keys
  std::int64_t skipped_blocks = 0;
};

/// Whether there are kernels for a model's heads where its weights are.
bool differentiable_attention_takes(const TorchWeights& weights);

/// Forgetting attention (Lin et al. 2025, eq. 6) by the kernels, forward and backward (Algorithm 2), as an operation of
/// LibTorch's autograd: gradients of queries, keys, values and log f. Where log f lies below kLowestLogGate, at which
/// it is held, its gradient is 0. Pairs that pruning leaves out have no gradient.
/// @returns nothing if it was stopped
/// @throws Error where a kernel is refused
std::optional<DifferentiableAttentionResult> differentiable_attention(const DifferentiableAttention& arguments);

}  // namespace foxscope
