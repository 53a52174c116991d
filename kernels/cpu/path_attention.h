#pragma once

#include <cstdint>
#include <stop_token>

#include "kernels/cpu/forgetting_attention.h"
#include "kernels/executor.h"
#include "kernels/status.h"

namespace foxscope::kernels::cpu {

/// A block of at most 64 keys that rows r meet from the last to the first, s_j = r.k_j and then r <- r + e_j (b_j.r)
/// (PaTH attention: e_j = w_j, b_j = -beta_j w_j; Yang et al. 2025, section 3.3). With x_j = b_j.r of the rows as they
/// come to the block's end, what b_j meets on the way is m_j = x_j + sum over l > j of m_l (e_l.b_j), m = x (I - A)^-1,
/// A_lj = e_l.b_j for l > j. So for all keys at once, C_lj = e_l.k_j for l > j,
///
///     s = K r + x (I - A)^-1 C = at_end r,  r <- r + x (I - A)^-1 E.
///
/// Rows of arrays are [depth], padded with zeros.
struct PathBlock {
  std::int64_t size = 0;          ///< keys, at most 64
  std::int64_t depth = 0;         ///< d in whole parts of a product's sum, a multiple of 16
  const float* key = nullptr;     ///< [size, depth]
  const float* write = nullptr;   ///< [size, depth] b
  const float* at_end = nullptr;  ///< [size, depth] K + near^T B
  const float* left = nullptr;    ///< [size, depth] (I - A)^-1 E
  const float* near = nullptr;    ///< [size, 64] (I - A)^-1 C
};

/// Computes what a block's rows need.
/// @param read    [size, depth] e
/// @param at_end  [size, depth], and left alike
/// @param near    [size, 64]
void prepare_path_block(const PathBlock& block, const float* read, float* at_end, float* left, float* near);

/// Rows meet a block: its tile of products, [size][64] as maps have it (pooled_map.h), and what is left of the rows.
/// Entries of keys behind a row mean nothing.
/// @param offset   position of lane 0 minus that of the block's first key; lanes that stand in the block start in it
/// @param queries  [depth][64] packed
/// @param rows     [depth][64] what is left of them behind the block, then before it; 0 in lanes that have not started
/// @param scratch  [64][64]
void meet_path_block(const PathBlock& block, std::int64_t offset, const float* queries, float* rows, float* scratch,
                     float* tile);

/// Forgetting attention whose keys are passed on from position to position, O = softmax(S scale + D) V with S_ij =
/// q_i^T (I + b_i e_i^T) ... (I + b_(j+1) e_(j+1)^T) k_j, tile by tile with an online softmax from the diagonal
/// backwards. Memory is O(L) beside the arguments: tables of a few heads of keys at a time. Where there is a gate, rows
/// stop where all that remains can hold no more than the tolerance of any of them, by |q| max|k| scale and the gate: no
/// position makes a key longer, as b_j = -beta_j e_j with |e_j| <= 1 and beta_j from 0 to 2. Nothing stops before its
/// end where log_normalizer_without_gate is asked for.
/// @param arguments    without window, cap and sinks, whose rows of queries, keys and values are contiguous
/// @param erase_read   [B, H_kv, L, d] e
/// @param erase_write  [B, H_kv, L, d] b
/// @param stop         polled on the way
/// @param blocks       may be null
/// @returns cancelled, with outputs incomplete; invalid_argument
/// @throws std::bad_alloc only
Status path_attention(const ForgettingAttention& arguments, const float* erase_read, const float* erase_write,
                      Executor& executor, const std::stop_token& stop, AttentionBlocks* blocks);

/// Keys of some heads as they meet a query behind the last position, k_j + all that the positions behind j add.
/// @param key, erase_read, erase_write  [heads, L, d]
/// @param out                           [heads, L, d]
/// @returns cancelled, with `out` incomplete
Status pass_path_keys(std::int64_t heads, std::int64_t length, std::int64_t head_dim, const float* key,
                      const float* erase_read, const float* erase_write, Executor& executor,
                      const std::stop_token& stop, float* out);

}  // namespace foxscope::kernels::cpu
