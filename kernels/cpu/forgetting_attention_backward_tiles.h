// Between the plan of attention's gradients (forgetting_attention_backward.cpp) and their arithmetic, which is compiled
// once per instruction set (forgetting_attention_backward_tiles.cpp). Not for other callers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/forgetting_attention_backward.h"
#include "kernels/cpu/forgetting_attention_tiles.h"

namespace foxscope::kernels::cpu {

/// Some key heads and the query heads that read them, rearranged for tile products, with the sums that tiles add to.
/// Key heads are counted through the batch from first_key_head on, query heads from the first that reads it. A head's
/// rows fill row_blocks blocks of kQueryBlock, its keys `blocks` blocks of kKeyBlock, zeros after the last.
struct BackwardHeads {
  std::int64_t first_key_head = 0;
  std::int64_t key_heads = 0;   ///< how many are packed at present
  std::int64_t group = 0;       ///< query heads of one key head
  std::int64_t blocks = 0;      ///< ceil(L / kKeyBlock)
  std::int64_t row_blocks = 0;  ///< ceil(L / kQueryBlock)
  std::int64_t width = 0;       ///< d rounded up to 16

  FloatBuffer keys;                  ///< [key_heads, blocks, d, kKeyBlock]
  FloatBuffer key_rows;              ///< [key_heads, blocks * kKeyBlock, width]
  FloatBuffer values;                ///< [key_heads, blocks, d, kKeyBlock]
  FloatBuffer key_gradient;          ///< [key_heads, blocks * kKeyBlock, width], to be multiplied with ln 2
  FloatBuffer value_gradient;        ///< [key_heads, blocks * kKeyBlock, width]
  std::vector<float> key_norms;      ///< [key_heads, blocks] largest |k| of a block; then of it and all before it
  std::vector<char> irregular_keys;  ///< [key_heads, blocks] whether a key is not finite
  FloatBuffer queries;               ///< [heads, row_blocks * kQueryBlock, width] times scale log2(e); 0 in dead rows
  FloatBuffer output_gradient;       ///< likewise, not scaled
  FloatBuffer query_gradient;        ///< likewise, to be multiplied with scale
  std::vector<float> deltas;         ///< [heads, row_blocks * kQueryBlock] dO_i O_i; 0 in dead rows
  std::vector<char> live;            ///< [heads, row_blocks * kQueryBlock] whether dO_i is not all zero
  std::vector<float> query_norms;    ///< [heads, row_blocks * kQueryBlock] |q| scale log2(e); infinity: never pruned
  std::vector<char> dead_rows;       ///< [heads, row_blocks] whether a row has a dO that is all zero
  std::vector<char> irregular_rows;  ///< [heads, row_blocks] whether a query or dO is not finite
  std::vector<double> retained;      ///< [heads, blocks] log2 of retained_mass; empty: no pruning
  std::vector<std::int64_t> first_block;  ///< [heads, row_blocks] first key block that is visited; blocks: none
  std::vector<double> row_sums;           ///< [heads, blocks * kKeyBlock] sum_j dS_ij
  std::vector<double> column_sums;        ///< [heads, blocks * kKeyBlock] sum_i dS_ij
};

/// The memory of one thread.
struct BackwardScratch {
  FloatBuffer logits;     ///< [kQueryBlock, kKeyBlock], then P
  FloatBuffer products;   ///< [kQueryBlock, kKeyBlock] dO V^T, then dS
  FloatBuffer gate_bias;  ///< [kKeyBlock] base-2 gate inside the key block
  FloatBuffer shifts;     ///< [kQueryBlock] base-2 gate between row and key block, less the log-normaliser
  FloatBuffer columns;    ///< [kKeyBlock] sums of dS over rows
  FloatBuffer rows;       ///< [rows of a cell, kMaxLanes] sums of dS over keys, one per lane
};

/// A square of the causal half that one task computes: all pairs of a range of row blocks and a range of key blocks,
/// for one key head and the query heads that read it.
struct BackwardCell {
  std::int64_t key_head = 0;  ///< in [0, key_heads)
  std::int64_t first_row_block = 0;
  std::int64_t last_row_block = 0;  ///< the one after the last
  std::int64_t first_block = 0;
  std::int64_t last_block = 0;  ///< the one after the last
};

/// Packs one block of rows of one query head and clears its gradient.
void pack_backward_rows(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, std::int64_t head,
                        std::int64_t row_block);

/// Adds what a cell's pairs hold to the gradients and sums. Cells that share rows or keys must not run at once.
void add_backward_cell(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, const BackwardCell& cell,
                       BackwardScratch& scratch);

}  // namespace foxscope::kernels::cpu
