#pragma once

#include <cstdint>

#include "kernels/cpu/pooled_map.h"

namespace foxscope::kernels::cpu {

/// Steps of tiles of a linear mixer's matrix M, y_i = sum_j M_ij v_j, in the layout of pooled_map.h: [keys][64
/// queries]. Decays enter as differences of sums, in float64, which are never positive where an entry is present: no
/// exponential is above 1.

/// tile[key][lane] = sum_k keys[key][k] packed[k][lane], as logit_tile; the sum over the depth is taken in longer
/// parts.
/// @param depth  a multiple of 16
void mixing_product(const float* packed, const float* keys, std::int64_t key_count, std::int64_t depth, float* tile);

/// out[n] = in[n] exp(min(0, later[n] - earlier[n])).
/// @param in  null: 1
void decay(const float* in, const double* later, const double* earlier, std::int64_t count, float* out);

/// out[row][n] = in[row][n] factor[n], [rows, count] contiguous.
void scale_channels(const float* in, const float* factor, std::int64_t rows, std::int64_t count, float* out);

/// sum over n of query[n] key[n] exp(min(0, later[n] - earlier[n])).
float decayed_product(const float* query, const float* key, const double* later, const double* earlier,
                      std::int64_t count);

/// tile[key][lane] = tile[key][lane] factor[key] exp(min(0, row[lane] - key_sum[key])).
/// @param row      [64] sum of log decays at a query, nats
/// @param key_sum  [key_count] at a key
void decay_tile(const double* row, const double* key_sum, const float* factor, std::int64_t key_count, float* tile);

/// values[n] = values[n] factor.
void scale(float factor, std::int64_t count, float* values);

/// tile[key][lane] = |tile[key][lane]| factor[lane].
void size_tile(const float* factor, std::int64_t key_count, float* tile);

/// tile[key][lane] = log2 of it; -infinity for 0.
void log_tile(std::int64_t key_count, float* tile);

/// sums[lane] += sum over keys of |tile[key][lane]|.
void add_row_sizes(const float* tile, std::int64_t key_count, double* sums);

/// Largest size of any of them; NaN where one is.
float largest_size(const float* values, std::int64_t count);

/// C = C + A^T B with A [depth, rows], B [depth, columns] and C [rows, columns], contiguous.
/// @param columns  a multiple of 16
void add_transposed_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a, const float* b,
                            float* c);

}  // namespace foxscope::kernels::cpu
