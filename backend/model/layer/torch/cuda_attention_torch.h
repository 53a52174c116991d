#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/cuda/stream.h"

namespace foxscope {

/// LibTorch's current stream of a GPU: kernels and LibTorch's operations follow each other on it, and memory that
/// LibTorch's allocator hands out is theirs in that order.
kernels::cuda::Stream current_stream(const at::Device& device);

/// Arguments of cuda_forgetting_attention; all tensors on the current GPU.
struct CudaAttention {
  at::Tensor query;                ///< [B, H, L, d] bfloat16 or float32; any strides, the last axis contiguous
  at::Tensor key;                  ///< [B, H_kv, L, d] likewise; query head h reads key head h / (H / H_kv)
  at::Tensor value;                ///< [B, H_kv, L, d] likewise
  at::Tensor output;               ///< [B, H, L, d] likewise: written
  at::Tensor cumulative_log_gate;  ///< [B, H, L] float64 contiguous, nats, non-increasing; undefined: no gate
  at::Tensor log_normalizer;       ///< [B, H, L] float32 contiguous, nats: written; undefined: not wanted
  at::Tensor blocks;               ///< [2] int64, pairs of blocks and those skipped: written with gate and tolerance
  double scale = 0;                ///< 1/sqrt(d)
  std::int64_t window_size = 0;    ///< row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;    ///< largest share of a row's attention that may be skipped; 0: none
};

/// Gradients of a loss, from that by the output; pairs that pruning leaves out have none.
struct CudaAttentionGradients {
  at::Tensor grad_output;    ///< as `output`
  at::Tensor grad_query;     ///< as `query`, written
  at::Tensor grad_key;       ///< as `key`, written
  at::Tensor grad_value;     ///< as `value`, written
  at::Tensor grad_log_gate;  ///< [B, H, L] float32 contiguous, nats per nat, written
};

/// Whether heads are no wider than the kernels', and this machine has a GPU for them. Heads of a dimension between the
/// kernels' are filled up with zeros, which change no product.
bool cuda_attention_takes(std::int64_t head_dim, at::ScalarType type);

/// The same for the backward, whose heads are at most 128 wide.
bool cuda_attention_back_takes(std::int64_t head_dim, at::ScalarType type);

/// Forgetting attention (Lin et al. 2025, eq. 6) by kernels/cuda, asynchronous on the current stream.
/// @returns which kernel it is, as reports name it
/// @throws Error if the kernel cannot be launched
const char* cuda_forgetting_attention(const CudaAttention& arguments);

/// The backward pass (Algorithm 2), likewise. Sums are made in one order where LibTorch is to use deterministic
/// algorithms.
/// @param arguments  as the forward left them, with the normaliser
/// @throws Error if the kernel cannot be launched
void cuda_forgetting_attention_backward(const CudaAttention& arguments, const CudaAttentionGradients& gradients);

}  // namespace foxscope
