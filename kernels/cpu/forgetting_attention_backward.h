#pragma once

#include <cstdint>
#include <stop_token>

#include "kernels/cpu/forgetting_attention.h"
#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels::cpu {

/// Gradients of forgetting attention (Lin et al. 2025, algorithm 2; docs/models.md). With
/// S_ij = q_i k_j scale + c_i - c_j and P_ij = exp(S_ij - lse_i), and given dO, the loss's gradient by O:
///   dS_ij = P_ij (dO_i v_j - dO_i O_i)
///   dQ_i = scale sum_j dS_ij k_j     dK_j = scale sum_i dS_ij q_i     dV_j = sum_i P_ij dO_i
///   dc_t = sum_j dS_tj - sum_i dS_it     dlog f_t = sum_{i>=t} dc_i
struct ForgettingAttentionBackward {
  /// The forward's call. Everything in it is read, output and log_normalizer too, which hold its results;
  /// log_normalizer_without_gate is not looked at.
  ForgettingAttention forward;
  const float* output_gradient = nullptr;  ///< [B, H, L, d] dO
  AttentionStrides output_gradient_strides;
  float* query_gradient = nullptr;  ///< [B, H, L, d]
  AttentionStrides query_gradient_strides;
  float* key_gradient = nullptr;  ///< [B, H_kv, L, d], summed over the query heads that read a key head
  AttentionStrides key_gradient_strides;
  float* value_gradient = nullptr;  ///< likewise
  AttentionStrides value_gradient_strides;
  /// [B, H, L] contiguous, of the loss by log f_t in nats; may be null. Without gates it is what a gate of 1 at t would
  /// have.
  float* log_gate_gradient = nullptr;
  float* key_logit_gradient = nullptr;  ///< [B, H, L] contiguous, sum_i dS_ij of each key j; may be null
};

/// Computes them tile by tile over the causal half, in float32 with the sums over rows and keys of dS in float64, and
/// in O(L) memory. Additions are made in one order, so that the results are the same bits for any number of threads.
/// Both sums of dS are kept: the row sums are 0 in exact arithmetic, and cancel what rounding of O leaves in dlog f. A
/// block of rows leaves out those key blocks that together hold no more than the pruning tolerance of any of its rows,
/// by the bound exp(|q| max|k| scale + c_i - c_j - lse_i) on a weight. A row whose dO is all zero contributes nothing,
/// whatever else it holds, and blocks of such rows are left out: what they alone would reach is exactly 0. NaN in an
/// input reaches what reads it through a row whose dO is not all zero, and nothing else.
/// @param stop    polled before each task; Status::cancelled leaves the gradients incomplete
/// @param blocks  pairs of a block of rows and a block of keys, and those left out for either reason; may be null
/// @returns invalid_argument for what forgetting_attention refuses, a null log-normaliser, a null dO, dQ, dK or dV,
///          rows of dQ, dK or dV that overlap
/// @throws std::bad_alloc only
Status forgetting_attention_backward(const ForgettingAttentionBackward& arguments, Executor& executor,
                                     const std::stop_token& stop, AttentionBlocks* blocks);

}  // namespace foxscope::kernels::cpu
