#pragma once

#include <cstdint>

#include "kernels/cpu/pooled_map.h"

namespace foxscope::kernels::cpu {

/// Largest entries of log2 A over parts of a tile, found without computing every entry in float32. Queries and keys are
/// rounded to eight bits, q = s_q u_q + e_q and k = s_k u_k + e_k, whose products cost a quarter of float32's;
///
///   |q . k - s_q s_k (u_q . u_k)| <= |e_q| |k| + (|q| + |e_q|) |e_k|
///
/// tells which entries may be a part's largest, and those alone are computed, as logit_tile and add_log_terms do.

/// True where this processor multiplies bytes fast (AVX-512 with VNNI), and the head's dimension fits.
bool rounds_logits(std::int64_t head_dim);

/// Keys of one block of at most kMapTile, rounded with one scale.
struct RoundedKeys {
  float scale = 0;  ///< NaN where a key is not finite: nothing is known of the block
  float norm = 0;   ///< largest |k|
  float error = 0;  ///< largest |e_k|
};

/// @param keys     [count, head_dim] contiguous, count <= kMapTile
/// @param rounded  [count, head_dim] u_k
/// @param offset   [count] what 128 added to each number of a query adds to the product, negated
RoundedKeys round_keys(const float* keys, std::int64_t count, std::int64_t head_dim, std::int8_t* rounded,
                       std::int32_t* offset);

/// Queries of one strip, each rounded with its own scale.
struct RoundedQueries {
  float scale[kMapTile] = {};
  float norm[kMapTile] = {};   ///< |q|, of packed queries, with their factor
  float error[kMapTile] = {};  ///< |e_q|
  bool finite = false;         ///< false: nothing is known of the strip
};

/// @param packed   [head_dim][64], of pack_queries
/// @param rounded  [head_dim / 4][64][4] u_q + 128
void round_queries(const float* packed, std::int64_t head_dim, std::uint8_t* rounded, RoundedQueries& queries);

/// One tile whose parts are searched.
struct RoundedTile {
  const float* packed = nullptr;  ///< the queries themselves
  const float* keys = nullptr;    ///< the keys themselves, [key_count, head_dim]
  const std::uint8_t* rounded_queries = nullptr;
  const RoundedQueries* queries = nullptr;
  const std::int8_t* rounded_keys = nullptr;
  const std::int32_t* offset = nullptr;
  RoundedKeys block;
  std::int64_t key_count = 0;
  std::int64_t head_dim = 0;
  LogTerms terms;
};

/// result[segment][piece] = the largest entry of that part if it is above current[segment][piece], or something not
/// above the latter; both [segments][64], log2.
/// @param most  entries that may be computed
/// @returns how many were; above `most` it gave up, and `result` means nothing
std::int64_t largest_of_parts(const RoundedTile& tile, const TilePixels& pixels, const float* current,
                              std::int64_t most, float* result);

}  // namespace foxscope::kernels::cpu
