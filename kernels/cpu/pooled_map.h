#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// Maps are made of tiles of up to 64 queries and 64 keys. A tile is [keys][64 queries] float32: keys along its rows,
/// so that keys are read where they lie and only queries are packed; queries in its lanes, of which only the first
/// `queries` mean anything. Every function here works on one tile, or on one line of pixels, within the cache.
inline constexpr std::int64_t kMapTile = 64;

/// How entries meet in a pixel; `absolute` keeps the entry of largest size with its sign (of two equal ones the
/// positive one). A pixel with an entry that is NaN is NaN.
enum class PixelReduction { max, min, sum, absolute };

/// The value of an absent entry, which changes nothing: -infinity, +infinity, 0 and 0.
float identity_of(PixelReduction reduction);

/// packed[k][lane] = query[lane][k] * factor, [head_dim][64]; lanes from `queries` on are 0.
/// @param query  [queries, head_dim] contiguous, queries <= 64
void pack_queries(const float* query, std::int64_t queries, std::int64_t head_dim, double factor, float* packed);

/// Largest Euclidean norm of rows [count, head_dim]; NaN if one is.
double largest_norm(const float* rows, std::int64_t count, std::int64_t head_dim);

/// tile[key][lane] = sum_k keys[key][k] packed[k][lane], keys [key_count, head_dim] contiguous.
void logit_tile(const float* packed, const float* keys, std::int64_t key_count, std::int64_t head_dim, float* tile);

/// The terms that turn logits into the logarithm of attention: row term minus key term, nats, float64.
struct LogTerms {
  const double* row = nullptr;  ///< [64] c_i - lse_i, or -lse_i without a gate
  const double* key = nullptr;  ///< [key_count] c_j; null: no gate
  double reference = 0;         ///< c of the first key of the tile's block; 0 without a gate
  double spread = 0;            ///< largest reference - c_j of the block; decides how the difference is rounded
};

/// tile = tile + (row - key) log2(e): from logits in units of log2 to log2 A (docs/maps.md). The gate's difference is
/// taken in float64; a block whose gate changes by less than 2 nats adds it as float32 relative to the block's
/// reference, others as one float64 sum per entry.
void add_log_terms(const LogTerms& terms, std::int64_t key_count, float* tile);

/// tile = cap tanh(tile / cap).  @param cap  above 0
/// @param unit  that a tile's logits are in, of those of the cap: log2(e) where they are powers of 2
void cap_logits(float cap, float unit, std::int64_t count, float* tile);

/// tile = 2^tile; below 2^-126 exactly 0.
void exponentiate(std::int64_t count, float* values);

/// a = a - b.
void subtract(std::int64_t count, float* a, const float* b);

/// tile[key][lane] = exp(row - key), differences in float64.
/// @param row  [64] c_i   @param key  [key_count] c_j, nats
void forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile);
/// tile[key][lane] = row - key.
void log_forget_tile(const double* row, const double* key, std::int64_t key_count, float* tile);

/// Writes `value` where an entry is absent: the key after the query, or at a distance of `window` or more.
/// @param offset  position of lane 0 minus position of the tile's first key
/// @param window  number of keys that a query sees, itself included; 0: all before it
void mask_tile(std::int64_t offset, std::int64_t window, std::int64_t key_count, float value, float* tile);

/// Where a tile's keys and lanes end in pixels: piece n holds keys [key_end[n-1], key_end[n]), segment n lanes alike.
struct TilePixels {
  int pieces = 0;
  int segments = 0;
  std::uint8_t key_end[kMapTile] = {};
  std::uint8_t lane_end[kMapTile] = {};
};

/// result[segment][piece], [64][64]: each pixel's part in this tile, reduced.
void reduce_tile(const float* tile, std::int64_t key_count, const TilePixels& pixels, PixelReduction reduction,
                 float* result);

/// The same of pieces that are diagonals: piece n holds the entries with edge[n] <= lane - key < edge[n + 1].
/// @param pixels  its key_end is not looked at
/// @param edge    [pieces + 1] ascending
void reduce_diagonals(const float* tile, std::int64_t key_count, const TilePixels& pixels, const std::int8_t* edge,
                      PixelReduction reduction, float* result);

/// pixels[n] = pixels[n] combined with values[n].
void combine(PixelReduction reduction, std::int64_t count, const float* values, float* pixels);

/// One tile of a running log-sum-exp over keys: maximum and sum [64] per lane, logits in units of log2. A new sum
/// starts with maximum -infinity and sum 0; its value is maximum + log2(sum).
void log_sum_exp_tile(const float* tile, std::int64_t key_count, float* maximum, double* sum);

/// out[n] = factor * key_factor[n] * exp(row - key[n]), in float64.
/// @param key_factor  null: 1
void exp_differences(double row, const double* key, double factor, const double* key_factor, std::int64_t count,
                     double* out);

}  // namespace foxscope::kernels::cpu
