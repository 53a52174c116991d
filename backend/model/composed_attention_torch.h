#pragma once

#include <optional>
#include <stop_token>

#include <ATen/ATen.h>

#include "backend/model/causal_lm.h"

namespace foxscope {

/// in W^T with float32 results, whatever the dtype of the operands.
/// @param in      [rows, depth]
/// @param weight  [columns, depth], same dtype
at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight);

/// Forgetting attention of one sequence made of LibTorch's operations, one head and one tile of rows at a time.
struct ComposedAttention {
  at::Tensor query;                         ///< [H, L, d] float32 or bfloat16
  at::Tensor key;                           ///< [H_kv, L, d]
  at::Tensor value;                         ///< [H_kv, L, d]
  std::span<const double> cumulative_gate;  ///< [H, L] on the host, nats; empty: no gate
  std::int64_t window_size = 0;             ///< 0: none
  double pruning_tolerance = 0;             ///< largest share of a row's attention that may be skipped
  bool without_gate = false;                ///< whether the normaliser without the gate is wanted as well
  std::stop_token stop;
};
struct ComposedAttentionResult {
  at::Tensor output;                       ///< [L, H, d] in the dtype of the values
  at::Tensor log_normalizer;               ///< [H, L] float32, nats
  at::Tensor log_normalizer_without_gate;  ///< likewise; undefined if not wanted
  std::int64_t blocks = 0;
  std::int64_t skipped_blocks = 0;
};
/// @returns nothing if it was stopped
std::optional<ComposedAttentionResult> composed_attention(const ComposedAttention& arguments);

}  // namespace foxscope
