#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Distances in elements between neighbours along an axis; the last axis is contiguous.
struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Pairs of a block of rows and a block of keys in the causal (windowed) half, and those of them that were left out of
/// the output because of the pruning tolerance.
struct AttentionBlocks {
  std::int64_t total = 0;
  std::int64_t skipped = 0;
};

/// Forgetting attention, O = softmax(Q K^T scale + D) V with D[i,j] = c[i] - c[j] for j <= i (Lin et al.
/// 2025, eq. 6; kernels/cpu/forgetting_attention.h). All pointers are to memory of the current device. Tensors may
/// overlap nowhere with the outputs. Query, key, value and output are bfloat16 for forgetting_attention, float32 for
/// forgetting_attention_float32.
struct ForgettingAttention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;  ///< query head h reads key head h / (heads / key_heads)
  std::int64_t length = 0;
  std::int64_t head_dim = 0;    ///< 16, 32, 64, 96, 128, 192 or 256; in float32 every multiple of 8 up to 128
  const void* query = nullptr;  ///< [B, H, L, d]
  AttentionStrides query_strides;
  const void* key = nullptr;  ///< [B, H_kv, L, d]
  AttentionStrides key_strides;
  const void* value = nullptr;  ///< [B, H_kv, L, d]
  AttentionStrides value_strides;
  const double* cumulative_log_gate = nullptr;  ///< [B, H, L] contiguous, nats, non-increasing; null: no gate
  void* output = nullptr;                       ///< [B, H, L, d]
  AttentionStrides output_strides;
  float* log_normalizer = nullptr;    ///< [B, H, L] contiguous, nats; may be null
  float scale = 0;                    ///< 1/sqrt(d)
  std::int64_t window_size = 0;       ///< w: row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;       ///< largest share of a row's attention that may be skipped; 0: none
  AttentionBlocks* blocks = nullptr;  ///< on the device; written only where a tolerance and a gate are given
  void* workspace = nullptr;          ///< workspace_bytes() of it, aligned to 256, in use until the stream gets past
};

/// The kernel that computes attention.
enum class AttentionKernel {
  automatic,
  hopper,    ///< TMA and wgmma: compute capability 9.0, d = 64 or 128, rows aligned to 16 bytes
  portable,  ///< mma.sync: compute capability 8.0 and later
  /// The same with no more shared memory than every card has, 100 KiB a multiprocessor; elsewhere `portable` takes
  /// more.
  portable_small,
};

/// The kernel that `automatic` stands for, with these arguments on the current device; `automatic` where neither can.
AttentionKernel automatic_kernel(const ForgettingAttention& arguments);

/// Bytes of workspace for these sizes, for either type; pointers and strides are not looked at.
std::size_t workspace_bytes(const ForgettingAttention& arguments);

/// Asynchronous on the stream. A skipped block's keys and values are not read, so that a NaN in them stays unseen.
/// Blocks are chosen before the softmax, by |q| max|k| scale, the gate's exact sum and the row's own logit as its
/// normaliser; the CPU's kernel knows more of the normaliser by then and skips a little more.
/// @returns invalid_argument for a size below 1, a head dimension that is not listed, heads that key_heads does not
///          divide, a null input, output or workspace, a negative window, a tolerance outside [0, 1), a scale that is
///          not positive, or a kernel that the device or the arguments rule out; unavailable without such a device or
///          in a build without CUDA; failed where a launch fails
Status forgetting_attention(const ForgettingAttention& arguments, Stream stream,
                            AttentionKernel kernel = AttentionKernel::automatic);

/// The same on float32 tensors, in float32 arithmetic with the gate's differences from float64: within 1e-5 of
/// kernels/cpu's. Every card since compute capability 8.0.
/// @returns as forgetting_attention
Status forgetting_attention_float32(const ForgettingAttention& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
