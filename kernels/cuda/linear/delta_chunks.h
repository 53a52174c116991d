#pragma once

#include <cstdint>

#include "kernels/cuda/linear/linear_chunks.h"

// The delta rule, S_t = alpha_t S_(t-1) + beta_t k_t (v_t - alpha_t S_(t-1)^T k_t)^T, in chunks of T positions (Yang et
// al. 2024, section 3.2; 2025, section 3.3). With c and the contracts of linear_chunks.h, Gamma_ij = exp(c_i - c_j) and
// A = tril(diag(beta) (K K^T o Gamma), -1) of a chunk, what its positions write is V' = U - W S,
//
//     U = (I + A)^-1 diag(beta) V,   W = (I + A)^-1 diag(beta exp(c)) K,   S before the chunk,
//
// y = tril(Q K^T o Gamma) V' + (exp(c) Q) S, and exp(c_T) S + (exp(c_T - c) K)^T V' is S behind it.
namespace foxscope::kernels::cuda {

/// The widest head of keys that delta_chunks and delta_states take.
inline constexpr std::int64_t kMostDeltaRows = 256;

/// All that is before the pass over the chunks. Keys, queries and values are rounded to bfloat16 once; A and the
/// inverse are float32, the inverse enters the products in two bfloat16 parts. Positions from L on write nothing.
struct DeltaChunks {
  std::int64_t batch = 0;             ///< B
  std::int64_t heads = 0;             ///< H
  std::int64_t groups = 0;            ///< G
  std::int64_t length = 0;            ///< L
  std::int64_t rows = 0;              ///< d, a multiple of 8 up to kMostDeltaRows
  std::int64_t columns = 0;           ///< d_v, a multiple of 8
  HeadRows query;                     ///< [B, G, L, d]
  HeadRows key;                       ///< [B, G, L, d]
  HeadRows value;                     ///< [B, H, L, d_v]
  const double* log_decay = nullptr;  ///< [B, H, L] dense, nats, summed in float64 within a chunk; null: 0
  const float* beta = nullptr;        ///< [B, H, L] dense; null: 1
  void* scores = nullptr;             ///< [B, H, N, T, T] bf16, tril(Q K^T o Gamma)
  void* query_decayed = nullptr;      ///< [B, H, N T, d] bf16, exp(c) Q
  void* key_decayed = nullptr;        ///< [B, H, N T, d] bf16, exp(c_T - c) K
  void* erased = nullptr;             ///< [B, H, N T, d] bf16, W
  void* written = nullptr;            ///< [B, H, N T, d_v] bf16, U
  float* kept = nullptr;              ///< [B, H, N] exp(c_T)
  // For the gradients; all null where none are wanted.
  void* inverse = nullptr;      ///< [B, H, N, 2, T, T] bf16, (I + A)^-1 in two parts whose sum it is up to 2^-17
  float* cumulative = nullptr;  ///< [B, H, N, T] c, nats
  void* triangle = nullptr;     ///< [B, H, N, T, T] bf16, A
};
Status delta_chunks(const DeltaChunks& arguments, Stream stream);

/// The pass over the chunks: V' of each, and S before it. Sums are float32, and so is S between chunks; where it enters
/// a product it is rounded to bfloat16.
struct DeltaStates {
  std::int64_t heads = 0;             ///< B H
  std::int64_t chunks = 0;            ///< N
  std::int64_t rows = 0;              ///< d, as in DeltaChunks
  std::int64_t columns = 0;           ///< d_v
  const void* erased = nullptr;       ///< [B H, N, T, d] bf16
  const void* key_decayed = nullptr;  ///< [B H, N, T, d] bf16
  const void* written = nullptr;      ///< [B H, N, T, d_v] bf16
  const float* kept = nullptr;        ///< [B H, N]
  const float* first = nullptr;       ///< [B H, d, d_v] S before all chunks; null: 0
  void* updates = nullptr;            ///< [B H, N, T, d_v] bf16, V'; may be `written`
  void* before = nullptr;             ///< [B H, N, d, d_v] bf16, S before each chunk
  float* last = nullptr;              ///< [B H, d, d_v] S behind them; may be null, or `first`
};
Status delta_states(const DeltaStates& arguments, Stream stream);

// The gradients. With R the gradient of the loss by y, X = (I + A)^-T dV' that by diag(beta) V, and dS that by the
// state behind a chunk, from the last chunk to the first
//
//     dV' = tril(Q K^T o Gamma)^T R + (exp(c_T - c) K) dS,
//     dS <- exp(c_T) dS + (exp(c) Q)^T R - W^T dV'.
//
// Since V' = U - W S, the gradient by A is -tril(X V'^T, -1), and that by diag(beta exp(c)) K is -X S^T. Batched
// products of [T, T] and [T, d] stand between the three steps below.

/// The pass back over the chunks. dS is float32 between chunks; where it enters a product it is rounded to bfloat16.
struct DeltaStatesGradient {
  std::int64_t heads = 0;                ///< B H
  std::int64_t chunks = 0;               ///< N
  std::int64_t rows = 0;                 ///< d, as in DeltaChunks
  std::int64_t columns = 0;              ///< d_v
  const void* erased = nullptr;          ///< [B H, N, T, d] bf16, W
  const void* query_decayed = nullptr;   ///< [B H, N, T, d] bf16
  const void* key_decayed = nullptr;     ///< [B H, N, T, d] bf16
  const void* mixed_gradient = nullptr;  ///< [B H, N, T, d_v] bf16, R
  const float* kept = nullptr;           ///< [B H, N]
  const void* before = nullptr;          ///< [B H, N, d, d_v] bf16, S before each chunk
  void* updates_gradient = nullptr;      ///< [B H, N, T, d_v] bf16, tril(Q K^T o Gamma)^T R; dV' takes its place
  void* after_gradient = nullptr;        ///< [B H, N, d, d_v] bf16, dS behind each chunk
  float* kept_gradient = nullptr;        ///< [B H, N, delta_state_parts(d_v)] parts of <S, dS>, to be summed
};
/// The number of blocks of columns that the passes over the chunks have.
std::int64_t delta_state_parts(std::int64_t columns);
Status delta_states_gradient(const DeltaStatesGradient& arguments, Stream stream);
/// Whether the current device has the shared memory for heads of keys so wide.
bool delta_states_gradient_fits(std::int64_t rows);

/// Turns the products with V'^T into what multiplies keys and queries: F = -tril(X V'^T o Gamma, -1) and
/// E = tril(R V'^T o Gamma). What c_i gets of the pairs of a chunk is the sum of row i less that of column i of
/// P = R V'^T o tril(Q K^T o Gamma) - X V'^T o A. Both are made of the same numbers: then a pair cancels where both its
/// positions lie behind a log decay.
struct DeltaTriangleGradient {
  std::int64_t heads = 0;             ///< B H
  std::int64_t length = 0;            ///< L
  const float* cumulative = nullptr;  ///< [B H, N, T] c
  const float* beta = nullptr;        ///< [B H, L]; null: 1
  const void* products = nullptr;     ///< [B H, N, 2, T, T] bf16, X V'^T and R V'^T
  void* triangles = nullptr;          ///< [B H, N, 3, T, T] bf16, F, E, diag(beta) F
  const void* scores = nullptr;       ///< [B H, N, T, T] bf16, tril(Q K^T o Gamma)
  const void* triangle = nullptr;     ///< [B H, N, T, T] bf16, A
  float* of_pairs = nullptr;          ///< [B H, N, T], the difference of P's sums
};
Status delta_triangle_gradient(const DeltaTriangleGradient& arguments, Stream stream);

/// Adds up what reaches each position of a head. The gradients by log decays of a chunk are sums from its end, float64.
struct DeltaRowsGradient {
  std::int64_t batch = 0;                ///< B
  std::int64_t heads = 0;                ///< H
  std::int64_t groups = 0;               ///< G
  std::int64_t length = 0;               ///< L
  std::int64_t rows = 0;                 ///< d
  std::int64_t columns = 0;              ///< d_v
  HeadRows query;                        ///< [B, G, L, d]
  HeadRows key;                          ///< [B, G, L, d]
  HeadRows value;                        ///< [B, H, L, d_v]
  const float* cumulative = nullptr;     ///< [B, H, N, T] c
  const float* beta = nullptr;           ///< [B, H, L]; null: 1
  const float* kept = nullptr;           ///< [B, H, N]
  const float* of_pairs = nullptr;       ///< [B, H, N, T]
  const void* of_keys = nullptr;         ///< [B, H, N, 2, T, d] bf16, F K and E K
  const void* of_both = nullptr;         ///< [B, H, N, T, d] bf16, E^T Q + (diag(beta) F)^T K
  const void* of_states = nullptr;       ///< [B, H, N, 2, T, d] bf16, X S^T and R S^T
  const void* of_updates = nullptr;      ///< [B, H, N, T, d] bf16, V' dS^T
  const void* right = nullptr;           ///< [B, H, N, 2, T, d_v] bf16, X and R
  const float* kept_gradient = nullptr;  ///< [B, H, N]; null: log decays are 0 and have no gradient
  float* query_gradient = nullptr;       ///< [B, H, L, d], of each head that reads it
  float* key_gradient = nullptr;         ///< [B, H, L, d], likewise
  float* value_gradient = nullptr;       ///< [B, H, L, d_v]
  float* beta_gradient = nullptr;        ///< [B, H, L]; null: not wanted
  double* log_decay_gradient = nullptr;  ///< [B, H, L]; null without kept_gradient alone
};
Status delta_rows_gradient(const DeltaRowsGradient& arguments, Stream stream);

}  // namespace foxscope::kernels::cuda
