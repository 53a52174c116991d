#pragma once

#include <cstdint>

namespace foxscope::bench {

/// What LibTorch reaches on the current GPU, a second; 0 where it is not linked with CUDA.
struct Limits {
  double bfloat16 = 0;  ///< operations of a matrix product
  double float32 = 0;   ///< likewise
  double memory = 0;    ///< bytes of a copy, read and written
};
Limits measure_limits();

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t length = 1;
  std::int64_t head_dim = 64;
};

/// Kernels of LibTorch's scaled_dot_product_attention.
enum class Peer { cudnn, flash };

/// Median time of ungated causal attention in bfloat16, seconds; 0 where LibTorch cannot.
double peer_attention_seconds(const AttentionShape& shape, Peer peer);

/// The same of its gradients by queries, keys and values.
double peer_attention_backward_seconds(const AttentionShape& shape, Peer peer);

}  // namespace foxscope::bench
