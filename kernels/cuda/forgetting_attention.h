#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/status.h"

struct CUstream_st;

namespace foxscope::kernels::cuda {

using Stream = CUstream_st*;  ///< cudaStream_t, without CUDA's headers

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

/// Forgetting attention on bfloat16, O = softmax(Q K^T scale + D) V with D[i,j] = c[i] - c[j] for j <= i (Lin et al.
/// 2025, eq. 6; kernels/cpu/forgetting_attention.h). All pointers are to memory of the current device. Tensors may
/// overlap nowhere with the outputs.
struct ForgettingAttention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;  ///< query head h reads key head h / (heads / key_heads)
  std::int64_t length = 0;
  std::int64_t head_dim = 0;    ///< 16, 32, 64, 96 or 128
  const void* query = nullptr;  ///< [B, H, L, d] bf16
  AttentionStrides query_strides;
  const void* key = nullptr;  ///< [B, H_kv, L, d] bf16
  AttentionStrides key_strides;
  const void* value = nullptr;  ///< [B, H_kv, L, d] bf16
  AttentionStrides value_strides;
  const double* cumulative_log_gate = nullptr;  ///< [B, H, L] contiguous, nats, non-increasing; null: no gate
  void* output = nullptr;                       ///< [B, H, L, d] bf16
  AttentionStrides output_strides;
  float* log_normalizer = nullptr;    ///< [B, H, L] contiguous, nats; may be null
  float scale = 0;                    ///< 1/sqrt(d)
  std::int64_t window_size = 0;       ///< w: row i sees i-w < j <= i; 0: all j <= i
  double pruning_tolerance = 0;       ///< largest share of a row's attention that may be skipped; 0: none
  AttentionBlocks* blocks = nullptr;  ///< on the device; written only where a tolerance and a gate are given
  void* workspace = nullptr;          ///< workspace_bytes() of it, aligned to 256, in use until the stream gets past
};

/// Which kernel computes it.
enum class AttentionKernel {
  automatic,
  hopper,    ///< TMA and wgmma: compute capability 9.0, d = 64 or 128, rows aligned to 16 bytes
  portable,  ///< mma.sync: compute capability 8.0 and later
};

/// Whether the current device is one that the kernels run on.
bool is_available();

/// Bytes of workspace for these sizes; pointers and strides are not looked at.
std::size_t workspace_bytes(const ForgettingAttention& arguments);

/// Asynchronous on the stream. A skipped block's keys and values are not read, so that a NaN in them stays unseen.
/// @returns invalid_argument for a size below 1, a head dimension that is not listed, heads that key_heads does not
///          divide, a null input, output or workspace, a negative window, a tolerance outside [0, 1), a scale that is
///          not positive, or a kernel that the device or the arguments rule out; unavailable without such a device or
///          in a build without CUDA; failed where a launch fails
Status forgetting_attention(const ForgettingAttention& arguments, Stream stream,
                            AttentionKernel kernel = AttentionKernel::automatic);

}  // namespace foxscope::kernels::cuda
