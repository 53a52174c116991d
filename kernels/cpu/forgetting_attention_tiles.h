// Between the plan of forgetting attention (forgetting_attention.cpp) and its arithmetic, which is compiled once per
// instruction set (forgetting_attention_tiles.cpp). Not for other callers.
#pragma once

#include <cstdint>
#include <vector>

#include <hwy/aligned_allocator.h>

#include "kernels/cpu/forgetting_attention.h"

namespace foxscope::kernels::cpu {

inline constexpr std::int64_t kKeyBlock = 64;    ///< keys of one tile, packed together
inline constexpr std::int64_t kQueryBlock = 96;  ///< rows of one tile
inline constexpr std::int64_t kMaxLanes = 16;    ///< floats in the widest vector

using FloatBuffer = hwy::AlignedFreeUniquePtr<float[]>;

/// Keys and values of some key heads, rearranged for tile_product, and what is known about all keys up to each; key
/// heads are counted through the batch.
struct PackedKeys {
  std::int64_t first_key_head = 0;
  std::int64_t key_heads = 0;    ///< how many are packed at present
  std::int64_t blocks = 0;       ///< ceil(L / kKeyBlock)
  std::int64_t value_dim = 0;    ///< d rounded up to 16
  FloatBuffer keys;              ///< [key_heads, blocks, d, kKeyBlock], transposed, zeros after the last key
  FloatBuffer values;            ///< [key_heads, blocks * kKeyBlock, value_dim], zeros likewise
  std::vector<float> norms;      ///< [key_heads, blocks] largest |k| of a block; then of this block and all before it
  std::vector<char> irregular;   ///< [key_heads, blocks] whether a value is not finite
  std::vector<double> retained;  ///< [query heads of key_heads, blocks] see retained_mass; empty: nothing is skipped
};

/// The memory of one thread, reused from one block of rows to the next.
struct Scratch {
  FloatBuffer queries;            ///< [kQueryBlock, d] times scale log2(e)
  FloatBuffer logits;             ///< [kQueryBlock, kKeyBlock], then the weights
  FloatBuffer output;             ///< [kQueryBlock, value_dim]
  FloatBuffer sums;               ///< [kQueryBlock, kMaxLanes] sums of weights, one per lane
  FloatBuffer sums_without_gate;  ///< likewise
  std::vector<float> reference;   ///< [kQueryBlock] base-2 exponent that the weights are relative to
  std::vector<float> reference_without_gate;
  std::vector<float> factors;    ///< [kQueryBlock] what the output so far has to be multiplied with
  std::vector<float> row_terms;  ///< [kQueryBlock] base-2 gate between row and key block
  std::vector<float> norms;      ///< [kQueryBlock] |q| scale log2(e)
  FloatBuffer gate_bias;         ///< [kKeyBlock] base-2 gate inside the key block
  AttentionBlocks blocks;        ///< counted over all its tasks
};

/// Packs one block of one key head. @param key_head  in [0, packed.key_heads)
void pack_block(const ForgettingAttention& arguments, PackedKeys& packed, std::int64_t key_head, std::int64_t block);

/// Transposes kKeyBlock rows of `dim` numbers (zeros after `count` of them) for the right side of a product.
/// @param stride  elements from one row to the next
/// @param keys    [dim, kKeyBlock]
/// @returns the largest |row|^2, infinity if one is not finite
float pack_keys(const float* key, std::int64_t stride, std::int64_t count, std::int64_t dim, float* keys);

/// Copies kKeyBlock rows (zeros after `count` of them and after each one's end).
/// @param values  [kKeyBlock, packed_dim]
/// @returns false if a number is not finite
bool pack_values(const float* value, std::int64_t stride, std::int64_t count, std::int64_t dim, std::int64_t packed_dim,
                 float* values);

/// For each key block of one query head (counted through the batch) the sum over all keys up to its last,
/// sum_j exp(c_last - c_j): how many keys of full weight the gate leaves of them.
/// @param retained  [blocks]
void retained_mass(const ForgettingAttention& arguments, std::int64_t head, double* retained);

/// Computes rows [first_row, first_row + kQueryBlock) of one query head (counted through the batch) whose keys are
/// packed.
void attend_rows(const ForgettingAttention& arguments, const PackedKeys& packed, std::int64_t head,
                 std::int64_t first_row, Scratch& scratch);

}  // namespace foxscope::kernels::cpu
