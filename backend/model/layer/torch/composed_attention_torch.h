#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

namespace foxscope {

/// Arguments of composed_forgetting_attention; all tensors on one device.
struct ComposedAttention {
  at::Tensor query;                ///< [B, H, L, d] float32 or bfloat16
  at::Tensor key;                  ///< [B, H_kv, L, d] likewise; query head h reads key head h / (H / H_kv)
  at::Tensor value;                ///< [B, H_kv, L, d] likewise
  at::Tensor cumulative_log_gate;  ///< [B, H, L] float64, nats, non-increasing; undefined: no gate
  double scale = 0;                ///< 1/sqrt(d)
  double logit_cap = 0;            ///< softmax is of cap tanh(q.k scale / cap) + D; 0: of the logits as they are
  /// [B, H_kv, L, d] float32 e and b that keys are passed on by (kernels/cpu/path_attention.h); undefined: they are
  /// not.
  at::Tensor erase_read, erase_write;
  at::Tensor sink;               ///< [H] float32 logits that every row's softmax is over beside; undefined: none
  std::int64_t window_size = 0;  ///< row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;  ///< largest share of a row's attention that may be skipped; 0: none
  bool without_gate_as_well = false;
};

struct ComposedAttentionResult {
  at::Tensor output;                       ///< [B, H, L, d] in the query's dtype
  at::Tensor log_normalizer;               ///< [B, H, L] float32, nats
  at::Tensor log_normalizer_without_gate;  ///< likewise, if asked for
  std::int64_t blocks = 0;                 ///< tiles of all heads
  std::int64_t skipped_blocks = 0;
};

/// Forgetting attention, O = softmax(Q K^T scale + D) V with D[i,j] = c[i] - c[j] for j <= i (Lin et al. 2025, eq. 6),
/// composed of LibTorch operations, tile by tile with an online softmax: the twin of the fused kernels, and what runs
/// on hardware without one. Where keys are passed on, a row's logits are computed from the diagonal to the left, block
/// of 64 keys by block, and nothing is skipped. Logits, softmax and sums are float32. Key tiles are visited from the
/// diagonal backwards, and a head leaves when all that remains holds no more than the tolerance of any row of the query
/// tile.
/// @returns nothing if it was stopped
std::optional<ComposedAttentionResult> composed_forgetting_attention(const ComposedAttention& arguments,
                                                                     const std::stop_token& stop);

}  // namespace foxscope
