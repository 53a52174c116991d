#include "kernels/cpu/rounded_logits.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include <hwy/targets.h>

#include "kernels/log2e.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in immintrin.h itself
#endif

// The instruction sets of the functions below; rounds_logits looks whether the processor has it.
#define FOXSCOPE_BYTE_PRODUCTS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))

namespace foxscope::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kVectors = kMapTile / kLanes;
constexpr int kDepthPart = 16;  ///< as in logit_tile
constexpr std::int64_t kMostDimensions = 256;
constexpr double kSmallSpread = 2.0;  ///< as in add_log_terms
/// Room for the rounding of float32 in both computations of an entry, a share of the sizes that meet in it: fewer than
/// 64 roundings of half a unit each, up to 256 dimensions.
constexpr float kRounding = 4e-6F;
/// Room for the rounding of norms themselves.
constexpr double kNormSlack = 1 + 1e-6;

/// |value| as a number that grows with it, so that sizes are compared many at a time; NaN and infinity are largest.
std::uint32_t size_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }
constexpr std::uint32_t kInfinityBits = 0x7f800000U;

float rounded_up(double value) { return static_cast<float>(value * kNormSlack); }

/// An entry that may be the largest of its part.
struct Candidate {
  std::uint8_t key;
  std::uint8_t lane;
  std::uint16_t place;  ///< of its part in the result
};
/// Entries that are computed side by side, so many that none waits for its own sums.
constexpr std::int64_t kTogether = 4;

/// logits[n] of a few candidates, summed in logit_tile's order.
FOXSCOPE_BYTE_PRODUCTS void logits_of(const RoundedTile& tile, const Candidate* candidates, float* logits) {
  const float* k[kTogether];
  const float* q[kTogether];
#pragma GCC unroll 4
  for (int n = 0; n < kTogether; ++n) {
    k[n] = tile.keys + candidates[n].key * tile.head_dim;
    q[n] = tile.packed + candidates[n].lane;
    logits[n] = 0;
  }
  for (std::int64_t part = 0; part < tile.head_dim; part += kDepthPart) {
    float sums[kTogether] = {};
    for (std::int64_t depth = part; depth < part + kDepthPart; ++depth) {
#pragma GCC unroll 4
      for (int n = 0; n < kTogether; ++n) sums[n] = __builtin_fmaf(k[n][depth], q[n][depth * kMapTile], sums[n]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < kTogether; ++n) logits[n] = part == 0 ? sums[n] : sums[n] + logits[n];
  }
}

/// An entry from its logit, as add_log_terms makes it.
FOXSCOPE_BYTE_PRODUCTS inline float entry(const LogTerms& terms, const Candidate& of, const float* high,
                                          const float* low, float logit) {
  if (terms.key == nullptr || terms.spread <= kSmallSpread) {
    const double bias = terms.key == nullptr ? 0.0 : (terms.reference - terms.key[of.key]) * kLog2E;
    return logit + static_cast<float>(bias) + high[of.lane] + low[of.lane];
  }
  return static_cast<float>(__builtin_fma(terms.row[of.lane] - terms.key[of.key], kLog2E, static_cast<double>(logit)));
}

/// sum + u8 s8, four products a lane. (GCC 12 copies the intrinsic's sum before each instruction.)
FOXSCOPE_BYTE_PRODUCTS inline __m512i with_products(__m512i sum, __m512i queries, __m512i keys) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(queries), "v"(keys));
  return sum;
}

/// values[key][lane] = scale[lane] (u_q . u_k) + bias[key]; loops over registers are unrolled, or sums lie in memory.
template <int kRows>
FOXSCOPE_BYTE_PRODUCTS void rounded_rows(const RoundedTile& tile, std::int64_t first, const float* scale,
                                         const float* bias, float* values) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i offset = _mm512_set1_epi32(tile.offset[first + r]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = offset;
  }
  const std::int8_t* keys = tile.rounded_keys + first * tile.head_dim;
  const std::uint8_t* queries = tile.rounded_queries;
  const std::int64_t stride = tile.head_dim;
  for (const std::int8_t* const end = keys + stride; keys != end; keys += 4, queries += 4 * kMapTile) {
    __m512i four[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) four[v] = _mm512_loadu_si512(queries + v * kLanes * 4);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      std::int32_t key = 0;
      __builtin_memcpy(&key, keys + r * stride, sizeof key);
      const __m512i keys_four = _mm512_set1_epi32(key);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = with_products(sum[r][v], four[v], keys_four);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 term = _mm512_set1_ps(bias[first + r]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][v]), _mm512_loadu_ps(scale + v * kLanes), term);
      _mm512_storeu_ps(values + (first + r) * kMapTile + v * kLanes, value);
    }
  }
}

FOXSCOPE_BYTE_PRODUCTS void rounded_tile(const RoundedTile& tile, const float* scale, const float* bias,
                                         float* values) {
  std::int64_t key = 0;
  for (; key + 6 <= tile.key_count; key += 6) rounded_rows<6>(tile, key, scale, bias, values);
  for (; key < tile.key_count; ++key) rounded_rows<1>(tile, key, scale, bias, values);
}

/// The bounds that the entries of a tile are compared by.
struct Bounds {
  alignas(64) float scale[kMapTile];  ///< s_q s_k
  alignas(64) float bias[kMapTile];   ///< c_reference - c_j, log2, by key
  alignas(64) float high[kMapTile];   ///< the row's term, log2, and the part of it that float32 does not hold
  alignas(64) float low[kMapTile];
  alignas(64) float below[kMapTile];  ///< added to an entry of `rounded_tile`: not above the entry itself
  alignas(64) float above[kMapTile];  ///< not below
};

/// @returns false where a term is not finite
FOXSCOPE_BYTE_PRODUCTS bool set_bounds(const RoundedTile& tile, Bounds& bounds) {
  const LogTerms& terms = tile.terms;
  double largest_bias = 0;
  for (std::int64_t key = 0; key < tile.key_count; ++key) {
    const double bias = terms.key == nullptr ? 0.0 : (terms.reference - terms.key[key]) * kLog2E;
    bounds.bias[key] = static_cast<float>(bias);
    largest_bias = std::max(largest_bias, std::abs(bias));
    if (!std::isfinite(bounds.bias[key])) return false;
  }
  const RoundedQueries& queries = *tile.queries;
  const auto bias_size = static_cast<float>(largest_bias);
  int finite = 1;
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
    const double term = (terms.row[lane] - terms.reference) * kLog2E;
    bounds.high[lane] = static_cast<float>(term);
    bounds.low[lane] = static_cast<float>(term - static_cast<double>(bounds.high[lane]));
    bounds.scale[lane] = queries.scale[lane] * tile.block.scale;
    const float error = queries.error[lane] * tile.block.norm +
                        (queries.norm[lane] + queries.error[lane]) * tile.block.error +
                        kRounding * (queries.norm[lane] * tile.block.norm + std::abs(bounds.high[lane]) + bias_size);
    bounds.below[lane] = bounds.high[lane] - error;
    bounds.above[lane] = bounds.high[lane] + error;
    finite &= static_cast<int>(std::abs(bounds.above[lane]) <= std::numeric_limits<float>::max());
  }
  return finite != 0;
}

/// The lanes of a segment that lie in a vector.
FOXSCOPE_BYTE_PRODUCTS inline __mmask16 lanes_of(int begin, int end, int vector) {
  const int first = std::max(begin - vector * kLanes, 0);
  const int last = std::min(end - vector * kLanes, kLanes);
  return first >= last ? 0 : static_cast<__mmask16>(((1U << last) - 1U) & ~((1U << first) - 1U));
}

}  // namespace

bool rounds_logits(std::int64_t head_dim) {
  if (head_dim % kDepthPart != 0 || head_dim > kMostDimensions) return false;
  // Tests choose instruction sets through Highway.
  return (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}

FOXSCOPE_BYTE_PRODUCTS RoundedKeys round_keys(const float* keys, std::int64_t count, std::int64_t head_dim,
                                              std::int8_t* rounded, std::int32_t* offset) {
  RoundedKeys block;
  std::uint32_t bits = 0;
  for (std::int64_t n = 0; n < count * head_dim; ++n) bits = std::max(bits, size_bits(keys[n]));
  const float largest = std::bit_cast<float>(bits);
  const bool finite = bits < kInfinityBits;
  block.scale = finite ? std::max(largest / 127, std::numeric_limits<float>::min()) : std::nanf("");
  if (!finite) return block;
  const float inverse = 1 / block.scale;
  double largest_norm = 0;
  double largest_error = 0;
  for (std::int64_t key = 0; key < count; ++key) {
    const float* const values = keys + key * head_dim;
    std::int8_t* const to = rounded + key * head_dim;
    std::int32_t sum = 0;
    double norm = 0;
    double error = 0;
    for (std::int64_t k = 0; k < head_dim; ++k) {
      const float whole = std::clamp(std::nearbyintf(values[k] * inverse), -127.0F, 127.0F);
      to[k] = static_cast<std::int8_t>(whole);
      sum += static_cast<std::int32_t>(whole);
      const double value = static_cast<double>(values[k]);
      const double rest = value - static_cast<double>(block.scale) * static_cast<double>(whole);
      norm += value * value;
      error += rest * rest;
    }
    offset[key] = -128 * sum;
    largest_norm = std::max(largest_norm, norm);
    largest_error = std::max(largest_error, error);
  }
  block.norm = rounded_up(std::sqrt(largest_norm));
  block.error = rounded_up(std::sqrt(largest_error));
  return block;
}

FOXSCOPE_BYTE_PRODUCTS void round_queries(const float* packed, std::int64_t head_dim, std::uint8_t* rounded,
                                          RoundedQueries& queries) {
  alignas(64) std::uint32_t bits[kMapTile] = {};
  alignas(64) float inverse[kMapTile];
  alignas(64) double norm[kMapTile] = {};
  alignas(64) double error[kMapTile] = {};
  for (std::int64_t k = 0; k < head_dim; ++k) {
    for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
      bits[lane] = std::max(bits[lane], size_bits(packed[k * kMapTile + lane]));
    }
  }
  queries.finite = *std::max_element(bits, bits + kMapTile) < kInfinityBits;
  if (!queries.finite) return;
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
    queries.scale[lane] = std::max(std::bit_cast<float>(bits[lane]) / 127, std::numeric_limits<float>::min());
    inverse[lane] = 1 / queries.scale[lane];
  }
  for (std::int64_t k = 0; k < head_dim; ++k) {
    for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
      const float value = packed[k * kMapTile + lane];
      const float whole = std::clamp(std::nearbyintf(value * inverse[lane]), -127.0F, 127.0F);
      rounded[(k / 4 * kMapTile + lane) * 4 + k % 4] = static_cast<std::uint8_t>(static_cast<int>(whole) + 128);
      const double rest =
          static_cast<double>(value) - static_cast<double>(queries.scale[lane]) * static_cast<double>(whole);
      norm[lane] += static_cast<double>(value) * static_cast<double>(value);
      error[lane] += rest * rest;
    }
  }
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
    queries.norm[lane] = rounded_up(std::sqrt(norm[lane]));
    queries.error[lane] = rounded_up(std::sqrt(error[lane]));
  }
}

FOXSCOPE_BYTE_PRODUCTS std::int64_t largest_of_parts(const RoundedTile& tile, const TilePixels& pixels,
                                                     const float* current, std::int64_t most, float* result) {
  assert(tile.head_dim % kDepthPart == 0 && tile.key_count <= kMapTile);
  Bounds bounds;
  if (!tile.queries->finite || !std::isfinite(tile.block.scale) || !set_bounds(tile, bounds)) return most + 1;
  alignas(64) float values[kMapTile * kMapTile];
  rounded_tile(tile, bounds.scale, bounds.bias, values);

  const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  // The candidates, with room for one that is looked at and not taken, and for the last of those that are computed
  // together.
  Candidate candidates[kMapTile * kMapTile + kTogether];
  std::int64_t count = 0;
  int first_key = 0;
  for (int piece = 0; piece < pixels.pieces; first_key = pixels.key_end[piece++]) {
    const int key_end = pixels.key_end[piece];
    __m512 low[kVectors];
    __m512 high[kVectors];
    __m512 largest[kVectors] = {none, none, none, none};
    for (int key = first_key; key < key_end; ++key) {
      const float* const line = values + key * kMapTile;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) largest[v] = _mm512_max_ps(largest[v], _mm512_load_ps(line + v * kLanes));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      low[v] = _mm512_add_ps(largest[v], _mm512_load_ps(bounds.below + v * kLanes));
      high[v] = _mm512_add_ps(largest[v], _mm512_load_ps(bounds.above + v * kLanes));
    }
    int first_lane = 0;
    for (int segment = 0; segment < pixels.segments; first_lane = pixels.lane_end[segment++]) {
      const int lane_end = pixels.lane_end[segment];
      const int last_vector = (lane_end - 1) / kLanes;
      __m512 lowest = none;
      for (int v = first_lane / kLanes; v <= last_vector; ++v) {
        lowest = _mm512_mask_max_ps(lowest, lanes_of(first_lane, lane_end, v), lowest, low[v]);
      }
      // An entry below is known already, or another entry of this part is larger.
      const auto place = static_cast<std::uint16_t>(segment * kMapTile + piece);
      const float least = std::max(current[place], _mm512_reduce_max_ps(lowest));
      result[place] = -std::numeric_limits<float>::infinity();
      for (int v = first_lane / kLanes; v <= last_vector; ++v) {
        unsigned lanes =
            _mm512_mask_cmp_ps_mask(lanes_of(first_lane, lane_end, v), high[v], _mm512_set1_ps(least), _CMP_GE_OQ);
        for (; lanes != 0; lanes &= lanes - 1) {
          const int lane = v * kLanes + __builtin_ctz(lanes);
          const float above = bounds.above[lane];
          for (int key = first_key; key < key_end; ++key) {
            candidates[count] = {static_cast<std::uint8_t>(key), static_cast<std::uint8_t>(lane), place};
            count += static_cast<std::int64_t>(values[key * kMapTile + lane] + above >= least);
          }
          if (count > most) return count;
        }
      }
    }
  }
  std::fill_n(candidates + count, kTogether, Candidate{0, 0, 0});
  for (std::int64_t first = 0; first < count; first += kTogether) {
    float logits[kTogether];
    logits_of(tile, candidates + first, logits);
    for (std::int64_t n = first; n < std::min(count, first + kTogether); ++n) {
      float& best = result[candidates[n].place];
      best = std::max(best, entry(tile.terms, candidates[n], bounds.high, bounds.low, logits[n - first]));
    }
  }
  return count;
}

}  // namespace foxscope::kernels::cpu

#else

namespace foxscope::kernels::cpu {

bool rounds_logits(std::int64_t) { return false; }

RoundedKeys round_keys(const float*, std::int64_t, std::int64_t, std::int8_t*, std::int32_t*) { return {}; }

void round_queries(const float*, std::int64_t, std::uint8_t*, RoundedQueries&) {}

std::int64_t largest_of_parts(const RoundedTile&, const TilePixels&, const float*, std::int64_t most, float*) {
  return most + 1;
}

}  // namespace foxscope::kernels::cpu

#endif
