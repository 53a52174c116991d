#pragma once

#include <cstdint>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "backend/model/weights/torch_weights_torch.h"

namespace foxscope {

/// Forgetting attention (Lin et al. 2025, eq. 6) and its gradients (Algorithm 2) by the kernels of the tensors' device.
struct AttentionTensors {
  at::Tensor query;           ///< [B, H, n, d] float32, or bfloat16 on a GPU; any strides, the last axis contiguous
  at::Tensor key;             ///< [B, H_kv, n, d] likewise; query head h reads key head h / (H / H_kv)
  at::Tensor value;           ///< likewise
  at::Tensor cumulative;      ///< [B, H, n] float64 c, nats, non-increasing; undefined: every f is 1
  at::Tensor output;          ///< [B, H, n, d] likewise: written by attend, read by attend_backward
  at::Tensor log_normalizer;  ///< [B, H, n] float32 nats: likewise
  at::Tensor log_normalizer_without_gate;  ///< likewise; undefined: not wanted
  at::Tensor blocks;                       ///< on a GPU [2] int64, pairs of blocks and those skipped: written
  double scale = 0;                        ///< 1/sqrt(d)
  std::int64_t window_size = 0;            ///< row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;            ///< largest share of a row's attention that may be skipped; 0: none
};

struct AttentionDone {
  const char* kernel = "";  ///< as reports name it; null: stopped
  std::int64_t blocks = 0;  ///< pairs of blocks of rows and of keys, from a CPU
  std::int64_t skipped_blocks = 0;
};

/// Whether there are kernels for forward and backward, for a model's heads where its weights are.
bool attention_kernels_take(const TorchWeights& weights);

/// @throws Error where a kernel is refused
AttentionDone attend(const AttentionTensors& tensors, const std::stop_token& stop);

/// Gradients of a loss, from that by the output. Entries that pruning left out have none.
struct AttentionGradients {
  at::Tensor grad_query;     ///< as `query`, written
  at::Tensor grad_key;       ///< as `key`, written
  at::Tensor grad_value;     ///< as `value`, written
  at::Tensor grad_log_gate;  ///< [B, H, n] float32, nats per nat, written
};
/// @param grad_output  as `output`
/// @throws Error where a kernel is refused
void attend_backward(const AttentionTensors& tensors, const at::Tensor& grad_output,
                     const AttentionGradients& gradients);

}  // namespace foxscope
