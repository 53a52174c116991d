#pragma once

#include <cstdint>
#include <stop_token>

#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels::cpu {

/// Distances in elements between neighbours along an axis; the last axis is contiguous.
struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Forgetting attention on float32, O = softmax(Q K^T scale + D) V with D[i,j] = c[i] - c[j] for j <= i (Lin et al.
/// 2025, eq. 6; docs/models.md). B batch, H query heads, H_kv key heads (query head h reads key head h / (H / H_kv)),
/// L positions, d head dimension.
struct ForgettingAttention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
  const float* query = nullptr;  ///< [B, H, L, d]
  AttentionStrides query_strides;
  const float* key = nullptr;  ///< [B, H_kv, L, d]
  AttentionStrides key_strides;
  const float* value = nullptr;  ///< [B, H_kv, L, d]
  AttentionStrides value_strides;
  const double* cumulative_log_gate = nullptr;  ///< [B, H, L] contiguous, nats, non-increasing; null: no gate
  float* output = nullptr;                      ///< [B, H, L, d]
  AttentionStrides output_strides;
  float* log_normalizer = nullptr;               ///< [B, H, L] contiguous, nats; may be null
  float* log_normalizer_without_gate = nullptr;  ///< likewise, of softmax(Q K^T scale); may be null
  float scale = 0;                               ///< 1/sqrt(d)
  float logit_cap = 0;          ///< softmax is of cap tanh(q.k scale / cap) + D (Gemma 2); 0: of the logits as they are
  const float* sink = nullptr;  ///< [H] logits that the softmax of every row is over beside; null: none
  std::int64_t window_size = 0;  ///< w: row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;  ///< largest share of a row's attention that may be skipped; 0: none
};

/// Pairs of a block of rows and a block of keys in the causal (windowed) half, and those of them that were left out of
/// the output because of the pruning tolerance.
struct AttentionBlocks {
  std::int64_t total = 0;
  std::int64_t skipped = 0;
};

/// Computes it tile by tile with an online softmax over the causal half only. Key blocks are visited from the diagonal
/// backwards; a row block stops where all that remains can hold no more than the tolerance of any of its rows, by the
/// bound |q| max|k| scale on a logit and the gate's exact sum. The logits of skipped blocks are still computed where
/// log_normalizer_without_gate is asked for; without a gate nothing is skipped.
/// NaN in an input reaches every row that reads it and no other, skipped blocks included.
/// @param stop    polled before each block of rows; Status::cancelled leaves the outputs incomplete
/// @param blocks  may be null
/// @returns invalid_argument for a size below 1, heads that key_heads does not divide, a null input or output, a
///          negative window, a tolerance outside [0, 1), a scale that is not finite, a cap that is negative or not
///          finite, output rows that overlap
/// @throws std::bad_alloc only
Status forgetting_attention(const ForgettingAttention& arguments, Executor& executor, const std::stop_token& stop,
                            AttentionBlocks* blocks);

}  // namespace foxscope::kernels::cpu
