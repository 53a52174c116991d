#pragma once

#include <cstdint>

#include "kernels/cpu/pooled_map.h"

namespace foxscope::kernels::cpu {

/// The sums of tiles of attention: mass by distance, entropy by row, and squares. Entry [key][lane] of a tile has index
/// lane - key + kMapTile - 1; its distance is that of lane 0 and key 0, plus the index, minus kMapTile - 1.
struct TileStatistics {
  float mass[2 * kMapTile] = {};
  float mass_without_first[2 * kMapTile] = {};  ///< entries times their row's weight
  float entropy[kMapTile] = {};                 ///< - sum of A log2 A
  float square_without_first = 0;               ///< sum of squares of entries times their row's weight
};

/// Statistics of one tile, which is replaced by its exponential.
/// @param tile       [key_count][64] log2 of attention; absent entries -infinity
/// @param weight     [64] by which rows count without the first key
/// @param first_key  keys of the tile before it stay out of what is without the first: 1 where key 0 of the text is in
/// it
void attention_statistics(float* tile, std::int64_t key_count, const float* weight, std::int64_t first_key,
                          TileStatistics& statistics);

/// Sum of A_ij over the keys of a tile that follow a token like that of the row, and are not the row itself.
/// @param tile    [key_count][64] attention; absent entries 0
/// @param before  [key_count] token before each key; one that no row has where there is none
/// @param token   [64] of each row
/// @param own     lane of the row that is the tile's first key
float repeated_mass(const float* tile, std::int64_t key_count, const std::int32_t* before, const std::int32_t* token,
                    std::int64_t own);

/// Sum of A_ij (c_i - c_j) over a tile, in float64.
/// @param tile  [key_count][64] attention; absent entries 0
/// @param row   [64] c_i, finite   @param key  [key_count] c_j, nats
double decay_mass(const float* tile, std::int64_t key_count, const double* row, const double* key);

/// sums[lane] += sum over keys from first_key on of 2^tile[key][lane].
void add_row_sums(const float* tile, std::int64_t key_count, std::int64_t first_key, double* sums);

}  // namespace foxscope::kernels::cpu
