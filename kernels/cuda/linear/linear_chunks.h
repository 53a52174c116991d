#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/status.h"

// Steps of a linear mixer's operator y_i = sum_j M_ij v_j (docs/models.md) between matrix products, in chunks of T
// positions: B sequences, H heads, G groups of them that share queries and keys (head h is of group h / (H/G)), N
// chunks, d state rows, d_v state columns. c is the sum of log decays within its chunk, nats, inclusive, and never
// grows. All pointers are to memory of the current device, dense in the order that is given; outputs overlap no input.
// Every step is asynchronous on the stream and returns invalid_argument for a size below 1, heads that the groups do
// not divide or a null pointer that is not allowed to be null; unavailable without a device or in a build without CUDA;
// failed where a launch fails.
namespace foxscope::kernels::cuda {

/// T
inline constexpr std::int64_t kLinearChunk = 64;

/// [B, heads, L, width] float32, the last axis dense; rows start at multiples of 16 bytes. Strides in elements.
struct HeadRows {
  const float* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

/// Sums of a head's log decays within chunks, float64 until they are rounded. Positions from L on write nothing.
struct HeadDecays {
  std::int64_t batch = 0;             ///< B
  std::int64_t heads = 0;             ///< H
  std::int64_t length = 0;            ///< L
  const double* log_decay = nullptr;  ///< [B, H, L] nats; null: 0
  std::int64_t decay_batch_stride = 0, decay_head_stride = 0, decay_row_stride = 0;
  const float* beta = nullptr;  ///< [B, H, L]; null: 1
  std::int64_t beta_batch_stride = 0, beta_head_stride = 0, beta_row_stride = 0;
  float* cumulative = nullptr;  ///< [B, H, N, T] c
  float* chunk_beta = nullptr;  ///< [B, H, N, T] beta, 0 beyond the length
  float* to_end = nullptr;      ///< [B, H, N, T] exp(c_T - c) beta
  float* kept = nullptr;        ///< [B, H, N] exp(c_T)
};
Status head_decays(const HeadDecays& arguments, Stream stream);

/// Gradients of a loss through head_decays, from those by what it makes.
struct HeadDecaysGradient : HeadDecays {
  const float* cumulative_gradient = nullptr;  ///< [B, H, N, T]
  const float* chunk_beta_gradient = nullptr;  ///< [B, H, N, T]
  const float* to_end_gradient = nullptr;      ///< [B, H, N, T]
  const float* kept_gradient = nullptr;        ///< [B, H, N]
  double* log_decay_gradient = nullptr;        ///< [B, H, L], sums from the end of a chunk; null: not wanted
  float* beta_gradient = nullptr;              ///< [B, H, L]; null: not wanted
};
Status head_decays_gradient(const HeadDecaysGradient& arguments, Stream stream);

/// M_ij = P_ij exp(c_i - c_j) beta_j for j <= i of the same chunk, else 0.
struct DecayedScores {
  std::int64_t batch = 0;             ///< B
  std::int64_t heads = 0;             ///< H
  std::int64_t groups = 0;            ///< G
  std::int64_t chunks = 0;            ///< N
  const void* product = nullptr;      ///< [B, G, N, T, T] bf16, P_ij = q_i . k_j
  const float* cumulative = nullptr;  ///< [B, H, N, T] c, nats
  const float* beta = nullptr;        ///< [B, H, N, T]
  void* scores = nullptr;             ///< [B, H, N, T, T] bf16
};
Status decayed_scores(const DecayedScores& arguments, Stream stream);

/// Gradients of a loss through decayed_scores, from that by M; the scores themselves are not read.
struct DecayedScoresGradient : DecayedScores {
  const void* scores_gradient = nullptr;  ///< [B, H, N, T, T] bf16
  void* product_gradient = nullptr;       ///< [B, G, N, T, T] bf16
  float* cumulative_gradient = nullptr;   ///< [B, H, N, T]
  float* beta_gradient = nullptr;         ///< [B, H, N, T]
};
Status decayed_scores_gradient(const DecayedScoresGradient& arguments, Stream stream);

/// Rows of a group times a factor of each of its heads: x_t factor_t, 0 beyond the length.
struct ScaledRows {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t length = 0;        ///< L
  std::int64_t padded = 0;        ///< L up to whole chunks
  std::int64_t width = 0;         ///< d, at most 1024
  const float* rows = nullptr;    ///< [B, G, L, d], the last axis dense
  std::int64_t batch_stride = 0;  ///< elements
  std::int64_t group_stride = 0;  ///< elements
  std::int64_t row_stride = 0;    ///< elements
  const float* factor = nullptr;  ///< [B, H, padded]
  bool positions_first = false;   ///< scaled is [B, padded, H, d]
  void* scaled = nullptr;         ///< [B, H, padded, d] bf16
};
Status scaled_rows(const ScaledRows& arguments, Stream stream);

/// Gradients of a loss through scaled_rows, heads first.
struct ScaledRowsGradient : ScaledRows {
  const void* scaled_gradient = nullptr;  ///< [B, H, padded, d] bf16
  float* rows_gradient = nullptr;         ///< [B, G, L, d]
  float* factor_gradient = nullptr;       ///< [B, H, padded], 0 beyond the length
};
Status scaled_rows_gradient(const ScaledRowsGradient& arguments, Stream stream);

/// S_(n+1) = diag(kept_n) S_n + W_n over the chunks.
struct PassedStates {
  std::int64_t heads = 0;         ///< B H
  std::int64_t chunks = 0;        ///< N
  std::int64_t rows = 0;          ///< d
  std::int64_t columns = 0;       ///< d_v
  std::int64_t heads_inside = 0;  ///< H: written and before are [B, N, d, H, d_v]; 0: heads come first
  bool kept_by_row = false;       ///< kept is [B H, N, d], else [B H, N]
  const void* written = nullptr;  ///< [B H, N, d, d_v] bf16, W
  const float* kept = nullptr;    ///< what a chunk leaves of what was there, from 0 to 1
  const float* first = nullptr;   ///< [B H, d, d_v] S before all chunks; null: 0
  void* before = nullptr;         ///< [B H, N, d, d_v] bf16, S_n
  float* last = nullptr;          ///< [B H, d, d_v] S behind them; may be null, or `first`
};
Status pass_states(const PassedStates& arguments, Stream stream);

/// Gradients of a loss through pass_states with no state before all chunks, from that by `before`; `written` and `last`
/// are not read.
struct PassedStatesGradient : PassedStates {
  const void* before_gradient = nullptr;  ///< as `before`
  void* written_gradient = nullptr;       ///< likewise
  float* kept_gradient = nullptr;         ///< as `kept`
};
Status pass_states_gradient(const PassedStatesGradient& arguments, Stream stream);

/// y_i = sum_{j <= i} M_ij v_j + exp(c_i) z_i with M of decayed_scores, j of the same chunk, and z_i = q_i S what the
/// chunks before give, positions first.
struct DecayedMix {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t length = 0;            ///< L
  std::int64_t chunks = 0;            ///< N, L up to whole chunks
  std::int64_t columns = 0;           ///< d_v, a multiple of 8 up to 256
  const void* product = nullptr;      ///< [B, G, N, T, T] bf16, P_ij = q_i . k_j
  const float* cumulative = nullptr;  ///< [B, H, N, T] c, nats
  const float* beta = nullptr;        ///< [B, H, N, T]
  HeadRows value;                     ///< [B, H, L, d_v]
  const void* carried = nullptr;      ///< [B, N T, H, d_v] bf16, z
  void* mixed = nullptr;              ///< [B, N T, H, d_v] bf16, y
};
Status decayed_mix(const DecayedMix& arguments, Stream stream);

/// exp(c_i) dy_i, what z_i of decayed_mix gets.
struct CarriedGradient {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t chunks = 0;               ///< N
  std::int64_t columns = 0;              ///< d_v, as in DecayedMix
  const float* cumulative = nullptr;     ///< [B, H, N, T] c, nats
  const void* mixed_gradient = nullptr;  ///< [B, N T, H, d_v] bf16, dy
  void* carried_gradient = nullptr;      ///< [B, N T, H, d_v] bf16
};
Status carried_gradient(const CarriedGradient& arguments, Stream stream);

/// Gradients of a loss through decayed_mix and through scaled_rows of the same values, s_j = e_j v_j, from those by
/// what they make. `mixed` is not read, and heads are of one group.
struct DecayedMixGradient : DecayedMix {
  const void* mixed_gradient = nullptr;   ///< [B, N T, H, d_v] bf16
  const float* to_end = nullptr;          ///< [B, H, N, T] e
  const void* scaled_gradient = nullptr;  ///< [B, N T, H, d_v] bf16, by s
  float* value_gradient = nullptr;        ///< [B, N T, H, d_v], of both
  float* product_parts = nullptr;         ///< [parts, B, N, T, T] parts of that by P, to be summed
  float* cumulative_gradient = nullptr;   ///< [B, H, N, T], of decayed_mix
  float* beta_gradient = nullptr;         ///< [B, H, N, T], likewise
  float* to_end_gradient = nullptr;       ///< [B, H, N, T]
};
/// The widest head that decayed_mix_gradient takes, a multiple of 16.
inline constexpr std::int64_t kMostMixGradientColumns = 128;
/// The number of `parts`.
std::int64_t decayed_mix_parts(const DecayedMix& arguments);
Status decayed_mix_gradient(const DecayedMixGradient& arguments, Stream stream);

/// All that is before the products where channels decay, each pair of a chunk on its own: M_ij = sum over n of
/// q_in k_jn exp(c_in - c_jn) for j <= i, else 0, q_i exp(c_i), k_j exp(c_T - c_j) and exp(c_T), c summed in float64.
struct ChannelChunks {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t length = 0;
  std::int64_t width = 0;             ///< d, a multiple of 8 up to 256
  HeadRows query;                     ///< [B, H, L, d]
  HeadRows key;                       ///< [B, H, L, d]
  const double* log_decay = nullptr;  ///< [B, H, L, d] nats, the last axis dense
  std::int64_t decay_batch_stride = 0, decay_head_stride = 0, decay_row_stride = 0;
  void* scores = nullptr;         ///< [B, H, N, T, T] bf16
  void* query_decayed = nullptr;  ///< [B, H, N T, d] bf16
  void* key_decayed = nullptr;    ///< [B, H, N T, d] bf16
  float* kept = nullptr;          ///< [B, H, N, d]
};
Status channel_chunks(const ChannelChunks& arguments, Stream stream);

/// Gradients of a loss through channel_chunks, from those by what it makes, none of which is read. The gradients by log
/// decays of a chunk are sums from its end, float64.
struct ChannelChunksGradient : ChannelChunks {
  const void* scores_gradient = nullptr;         ///< [B, H, N, T, T] bf16; what is above the diagonal is not read
  const void* query_decayed_gradient = nullptr;  ///< [B, H, N T, d] bf16
  const void* key_decayed_gradient = nullptr;    ///< [B, H, N T, d] bf16
  const float* kept_gradient = nullptr;          ///< [B, H, N, d]
  float* query_gradient = nullptr;               ///< [B, H, L, d]
  float* key_gradient = nullptr;                 ///< [B, H, L, d]
  double* log_decay_gradient = nullptr;          ///< [B, H, L, d]
};
Status channel_chunks_gradient(const ChannelChunksGradient& arguments, Stream stream);
/// Whether the current device has the shared memory for heads so wide.
bool channel_chunks_gradient_fits(std::int64_t width);

/// A causal convolution, a channel each, and silu of it: out_t = silu(bias + sum_{s < K} w_s x_(t - K + 1 + s)).
struct ShortConvolution {
  std::int64_t batch = 0;
  std::int64_t length = 0;    ///< L
  std::int64_t channels = 0;  ///< C
  std::int64_t taps = 0;      ///< K, 2 to 4
  const void* x = nullptr;    ///< [B, L, C], the last axis dense
  ElementType x_type = ElementType::float32;
  std::int64_t row_stride = 0;    ///< of x, elements
  std::int64_t batch_stride = 0;  ///< of x, elements
  const float* before = nullptr;  ///< [B, K - 1, C] dense, what precedes x; null: 0
  const float* weight = nullptr;  ///< [C, K]
  const float* bias = nullptr;    ///< [C]; may be null
  float* out = nullptr;           ///< [B, L, C]
};
Status short_convolution(const ShortConvolution& arguments, Stream stream);

/// Gradients of a loss through short_convolution without what precedes x; `out` is not read.
struct ShortConvolutionGradient : ShortConvolution {
  const float* out_gradient = nullptr;  ///< [B, L, C]
  void* x_gradient = nullptr;           ///< [B, L, C] of x's type
  float* parts = nullptr;               ///< [parts, C, K + 1] parts of the gradients by weight and bias, to be summed
};
/// The number of `parts`.
std::int64_t short_convolution_parts(const ShortConvolution& arguments);
Status short_convolution_gradient(const ShortConvolutionGradient& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
