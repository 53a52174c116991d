#pragma once

#include <cstddef>

#include "kernels/cuda/attention/forgetting_attention.h"

namespace foxscope::kernels::cuda {

/// Gradients of forgetting attention (Lin et al. 2025, Algorithm 2). With P_ij the weights of the forward pass and
/// Delta_i = dO_i.O_i,
///   dS_ij = P_ij (dO_i.v_j - Delta_i),
///   dV_j = sum_i P_ij dO_i,  dQ_i = scale sum_j dS_ij k_j,  dK_j = scale sum_i dS_ij q_i,
///   d loss / d log f_t = sum over i >= t of (sum_j dS_ij - sum_r dS_ri), which is the sum of dS over i >= t > j.
/// All pointers are to memory of the current device; no output overlaps another or an input. Tensors are bfloat16 for
/// forgetting_attention_backward, float32 for forgetting_attention_backward_float32.
struct ForgettingAttentionBackward {
  /// The arguments of the forward pass. Output and log-normaliser, which must not be null here, are read: they are what
  /// that pass left. Its workspace and its count of blocks are not looked at. A tolerance leaves out pairs by the bound
  /// of the forward pass, but in this pass's own blocks.
  ForgettingAttention forward;
  const void* output_gradient = nullptr;  ///< [B, H, L, d] dO
  AttentionStrides output_gradient_strides;
  void* query_gradient = nullptr;  ///< [B, H, L, d] dQ
  AttentionStrides query_gradient_strides;
  void* key_gradient = nullptr;  ///< [B, H_kv, L, d] dK, summed over the query heads that read the key head
  AttentionStrides key_gradient_strides;
  void* value_gradient = nullptr;  ///< [B, H_kv, L, d] dV, likewise
  AttentionStrides value_gradient_strides;
  /// [B, H, L] contiguous: d loss / d log f, also where there is no gate (f = 1); may be null.
  float* log_gate_gradient = nullptr;
  float* key_logit_gradient = nullptr;  ///< [B, H, L] contiguous: sum over i of dS_ij at j; may be null
  /// Sums are made in one order, so that two runs agree in every bit. In float32 they always are.
  bool deterministic = false;
  void* workspace = nullptr;  ///< backward_workspace_bytes() of it, aligned to 256, in use until the stream gets past
};

/// Bytes of workspace for these sizes, this tolerance and either type; pointers and strides are not looked at. In
/// bfloat16 it holds dQ in float32.
std::size_t backward_workspace_bytes(const ForgettingAttentionBackward& arguments);

/// Asynchronous on the stream. P and dS are rounded to bfloat16 before they are multiplied; sums are float32. The sums
/// over a row and over a column of dS are made of the same rounded numbers, so that what Delta inherits from a rounded
/// output cancels in d log f.
/// @returns invalid_argument as forgetting_attention, and for a null log-normaliser, gradient or workspace; unavailable
///          without such a device or in a build without CUDA; failed where a launch fails
Status forgetting_attention_backward(const ForgettingAttentionBackward& arguments, Stream stream,
                                     AttentionKernel kernel = AttentionKernel::automatic);

/// The same on float32 tensors, in float32 arithmetic with the gate's differences from float64. Every card since
/// compute capability 8.0; d a multiple of 8 up to 128.
/// @returns as forgetting_attention_backward
Status forgetting_attention_backward_float32(const ForgettingAttentionBackward& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
