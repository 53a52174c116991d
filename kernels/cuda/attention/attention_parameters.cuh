// Launch parameters of the attention kernels. Private to kernels/cuda.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace foxscope::kernels::cuda {

/// [B, H, L, d] with strides in elements; the last axis is contiguous.
struct TensorView {
  const void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

struct MutableTensorView {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Counters that the thread blocks of a launch share.
struct AttentionCounters {
  int next_item;    ///< how many blocks of rows are taken
  int next_marked;  ///< the same, the second time
  int any_marked;   ///< whether there is a second time
};

struct AttentionParameters {
  TensorView query, key, value;
  MutableTensorView output;
  const double* gate = nullptr;     ///< [B, H, L] cumulative, nats; null: none
  const void* bias = nullptr;       ///< [B, H, bias_length, 8] bf16, see gate_bias
  float* log_normalizer = nullptr;  ///< [B, H, L]; may be null
  std::int64_t bias_length = 0;     ///< L rounded up to whole key blocks
  int batch = 0, heads = 0, key_heads = 0, group = 1, length = 0;
  int window_size = 0;
  float scale_log2 = 0;                   ///< scale of the logits times log2(e)
  double gate_to_logit = 0;               ///< from a difference of gates, nats, to a logit before its scale
  const int* first_tile = nullptr;        ///< [B, H, row_blocks] key blocks before it are skipped; null: none
  AttentionCounters* counters = nullptr;  ///< zeros before the launch
  int* marked = nullptr;                  ///< [items] whether a block of rows is to be computed a second time
  int items = 0;
  int multiprocessors = 0;
  bool aligned = true;  ///< rows start at multiples of 16 bytes
  int row_blocks = 0;
  int heads_at_a_time = 1;
  double cache_bytes = 0;  ///< of L2
  int shared_bytes = 0;    ///< of a multiprocessor
};

/// The slice that holds the gate (gate_bias) is relative to the end of its key block, so that a row's logits are what
/// is left of two numbers that grow with the gate's fall from the row to there. Up to this fall, in units of log2 (128
/// nats), float32 leaves 3e-5 nats. Beyond it, which is a matter of a row's own key block alone, gates are added one by
/// one as differences of float64.
constexpr float kMostSliceFall = 184.7F;

/// Shared memory of a multiprocessor of compute capability 8.6, 8.9 or 12: no card has less.
constexpr int kLeastSharedBytes = 100 * 1024;

/// Rows and keys of a tile.
struct TileShape {
  int rows;
  int keys;
};

// One function a head dimension and architecture, each in a file of its own.
inline constexpr TileShape kHopperTile64 = {192, 128};
inline constexpr TileShape kHopperTile128 = {128, 128};
inline constexpr TileShape kPortableTile = {128, 64};
inline constexpr TileShape kFloat32Tile = {64, 64};
cudaError_t hopper_attention_64(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t hopper_attention_128(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_16(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_32(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_64(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_96(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_128(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_192(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t portable_attention_256(const AttentionParameters& parameters, cudaStream_t stream);
/// @param head_dim  a multiple of 8 up to 128
cudaError_t float32_attention(const AttentionParameters& parameters, int head_dim, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda
