// Tiles of logits and their gates, for maps, row normalisers and statistics of attention. Private to kernels/cuda.
//
// A warp has 32 queries and goes over keys in steps of 16. Its thread holds s[m][n][e] of query
// 16 m + lane / 4 + 8 (e / 2) and key 8 n + 2 (lane % 4) + e % 2, which is how mma.sync leaves them; `line` 2 m + e / 2
// tells a thread's four queries apart.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::maps {

constexpr int kTileKeys = 64;
constexpr int kStepKeys = 16;
constexpr int kWarpRows = 32;
constexpr int kMostWarps = 8;
constexpr unsigned kMostGridRows = 65535;  // blocks along y
constexpr float kLn2 = 0.693147180559945F;
/// Nats of gate within a block of keys up to which one float32 number holds them as well as it holds a logit.
constexpr double kSmallSpread = 2.0;
/// Large terms are split at multiples of 1/32: the larger part of a sum of two is then exact up to 2^19, and beyond
/// that lie only entries that are 0 (log f is at least -1000, a block has 64 keys and a thread block 256 queries).
constexpr double kGrid = 32.0;

struct HeadParameters {
  const void* query = nullptr;
  const void* key = nullptr;
  int head_dim = 0;
  int depth = 0;  ///< head_dim rounded up to 16
  bool float32 = false;
  bool aligned = false;             ///< rows are whole pieces of 16 bytes
  float scale = 0;                  ///< of a logit: in units of log2, or in nats for MapValue::logit
  const double* gate = nullptr;     ///< nats
  const float* lse = nullptr;       ///< nats
  const float2* terms = nullptr;    ///< [L] gate of a key, see prepare_keys
  const float* key_norm = nullptr;  ///< [tiles] largest |k| of a tile; null: no tile is left out
  const float* row_norm = nullptr;  ///< [L]
};

/// Bytes between two rows of a tile in shared memory, so that eight rows lie in different banks.
__host__ __device__ inline int tile_stride(int depth, bool float32) {
  return float32 ? depth * 4 + 16 : depth * 2 + 16;
}

/// IEEE 754's maximum and minimum: NaN where either is, which fmaxf and fminf drop.
__device__ __forceinline__ float maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ float minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ double maximum(double a, double b) { return isnan(a) || a > b ? a : b; }

/// Starts copying rows [first, first + count) of [length, d], zeros from `length` on, by all threads of the block.
__device__ inline void load_rows(const HeadParameters& head, const void* from, int first, int count, int length,
                                 char* to) {
  const int stride = tile_stride(head.depth, head.float32);
  const int size = head.float32 ? 4 : 2;
  const auto threads = static_cast<int>(blockDim.x);
  const auto* source = static_cast<const char*>(from);
  if (head.aligned) {
    const int pieces = head.depth * size / 16;
    const int real = head.head_dim * size / 16;
    for (int n = static_cast<int>(threadIdx.x); n < count * pieces; n += threads) {
      const int row = n / pieces;
      const int piece = n % pieces;
      const bool inside = first + row < length && piece < real;
      const std::int64_t at = inside ? std::int64_t{first + row} * head.head_dim * size + piece * 16 : 0;
      copy_async<16>(to + row * stride + piece * 16, source + at, inside);
    }
    return;
  }
  for (int n = static_cast<int>(threadIdx.x); n < count * head.depth; n += threads) {
    const int row = n / head.depth;
    const int column = n % head.depth;
    const bool inside = first + row < length && column < head.head_dim;
    const std::int64_t at = inside ? std::int64_t{first + row} * head.head_dim + column : 0;
    if (head.float32) {
      *reinterpret_cast<float*>(to + row * stride + column * 4) =
          inside ? reinterpret_cast<const float*>(source)[at] : 0.0F;
    } else {
      *reinterpret_cast<std::uint16_t*>(to + row * stride + column * 2) =
          inside ? reinterpret_cast<const std::uint16_t*>(source)[at] : std::uint16_t{0};
    }
  }
}

using Step = float[2][2][4];

__device__ __forceinline__ void clear(Step& s) {
#pragma unroll
  for (int n = 0; n < 16; ++n) s[n / 8][n / 4 % 2][n % 4] = 0.0F;
}

/// bfloat16 with a head dimension known to the compiler: queries stay in registers.
template <int HeadDim>
struct FixedDot {
  static constexpr int kHeadDim = HeadDim;
  static constexpr bool kQueriesInMemory = false;
  static constexpr int kStages = 3;
  std::uint32_t query[2][HeadDim / 16][4];

  /// @param row  of the thread's line 0
  __device__ __forceinline__ void start(const HeadParameters& head, const char* /*queries*/, int row, int length) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int x = 0; x < HeadDim / 16; ++x) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = row + 16 * m + i % 2 * 8;
          const int column = 16 * x + i / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
          const auto* source = static_cast<const std::uint16_t*>(head.query);
          query[m][x][i] =
              at < length ? *reinterpret_cast<const std::uint32_t*>(source + std::int64_t{at} * HeadDim + column) : 0U;
        }
      }
    }
  }

  /// Takes the warp's queries from rows of a tile in shared memory.
  __device__ __forceinline__ void read(const char* rows) {
    constexpr int kStride = HeadDim * 2 + 16;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const char* at = rows + lane % 16 * kStride + lane / 16 * 16;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int x = 0; x < HeadDim / 16; ++x) load_fragment(at + 16 * m * kStride + 32 * x, query[m][x]);
    }
  }

  /// @param first  of the 16 keys in the tile; of keys past its end nothing is promised
  __device__ __forceinline__ void step(const HeadParameters& /*head*/, const char* keys, int first, Step& s) const {
    constexpr int kStride = HeadDim * 2 + 16;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Both halves of eight keys come one after the other, as the product takes them.
    const int key = first + lane % 8 + lane / 16 * 8;
    const char* at = keys + min(key, kTileKeys - 1) * kStride + lane / 8 % 2 * 16;
    clear(s);
#pragma unroll
    for (int x = 0; x < HeadDim / 16; ++x) {
      std::uint32_t f[4];
      load_fragment(at + 32 * x, f);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply(s[m][0], query[m][x], f[0], f[1]);
        multiply(s[m][1], query[m][x], f[2], f[3]);
      }
    }
  }
};

/// Any head dimension, bfloat16 or float32: queries are read from shared memory again at each step.
struct AnyDot {
  static constexpr int kHeadDim = 0;  // known when it runs
  static constexpr bool kQueriesInMemory = true;
  static constexpr int kStages = 2;
  const char* queries = nullptr;  ///< of the warp

  __device__ __forceinline__ void start(const HeadParameters& head, const char* block_queries, int /*row*/,
                                        int /*length*/) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    queries = block_queries + warp * kWarpRows * tile_stride(head.depth, head.float32);
  }

  __device__ __forceinline__ void read(const char* rows) { queries = rows; }

  __device__ __forceinline__ void step(const HeadParameters& head, const char* keys, int first, Step& s) const {
    clear(s);
    if (head.key == nullptr) return;
    if (head.float32) {
      step_float32(head, keys, first, s);
    } else {
      step_bfloat16(head, keys, first, s);
    }
  }

 private:
  __device__ __forceinline__ void step_bfloat16(const HeadParameters& head, const char* keys, int first,
                                                Step& s) const {
    const int stride = tile_stride(head.depth, false);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const char* key = keys + min(first + lane % 8 + lane / 16 * 8, kTileKeys - 1) * stride + lane / 8 % 2 * 16;
    const char* query = queries + lane % 16 * stride + lane / 16 * 16;
    for (int x = 0; x < head.depth / 16; ++x) {
      std::uint32_t f[4];
      load_fragment(key + 32 * x, f);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        std::uint32_t a[4];
        load_fragment(query + 16 * m * stride + 32 * x, a);
        multiply(s[m][0], a, f[0], f[1]);
        multiply(s[m][1], a, f[2], f[3]);
      }
    }
  }

  /// Sums in parts of 16 dimensions, each rounded at its own, smaller size.
  __device__ __forceinline__ void step_float32(const HeadParameters& head, const char* keys, int first, Step& s) const {
    const int stride = tile_stride(head.depth, true);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const char* query = queries + lane / 4 * stride;
    const char* key[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      key[j] = keys + min(first + j / 2 * 8 + lane % 4 * 2 + j % 2, kTileKeys - 1) * stride;
    }
    for (int x = 0; x < head.depth; x += 16) {
      Step part;
      clear(part);
#pragma unroll
      for (int k = 0; k < 16; k += 4) {
        float4 b[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) b[j] = *reinterpret_cast<const float4*>(key[j] + (x + k) * 4);
#pragma unroll
        for (int line = 0; line < 4; ++line) {
          const float4 a = *reinterpret_cast<const float4*>(query + 8 * line * stride + (x + k) * 4);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float& sum = part[line / 2][j / 2][line % 2 * 2 + j % 2];
            sum = fmaf(a.x, b[j].x, sum);
            sum = fmaf(a.y, b[j].y, sum);
            sum = fmaf(a.z, b[j].z, sum);
            sum = fmaf(a.w, b[j].w, sum);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < 16; ++n) s[n / 8][n / 4 % 2][n % 4] += part[n / 8][n / 4 % 2][n % 4];
    }
  }
};

/// Whether the gate of a tile's keys takes two numbers; also where it ends in NaN.
__device__ __forceinline__ bool spreads(double first, double last) { return !(first - last <= kSmallSpread); }

/// A number in two parts, the first a multiple of 1/32.
struct Split {
  float high = 0;
  float low = 0;
};
__device__ __forceinline__ Split split(double value) {
  const auto high = static_cast<float>(rint(value * kGrid) / kGrid);
  return {high, static_cast<float>(value - static_cast<double>(high))};
}

/// The terms of an entry's logarithm, in units of log2, that the gate and the normaliser make.
struct LogTerms {
  double base = 0;  ///< about the gate at the first query of the thread block
  float high[4];    ///< of the thread's queries: c_i - lse_i - base
  float low[4];
  // Gates of the tile that was set last:
  float row_high[4];  ///< of the queries, relative to the tile's first key
  float row_low[4];
  bool far = false;  ///< the gate changes so much within the tile that a key's term is in two parts

  /// @param row  of the thread's line 0
  __device__ __forceinline__ void start(const HeadParameters& head, int block_row, int row, int length) {
    // A multiple of the grid, and products rounded before they are subtracted: what comes out then does not depend on
    // it.
    base = head.gate == nullptr ? 0.0 : rint(head.gate[block_row] * kLog2E * kGrid) / kGrid;
#pragma unroll
    for (int line = 0; line < 4; ++line) {
      const int at = min(row + 8 * line, length - 1);
      double term = head.gate == nullptr ? 0.0 : head.gate[at];
      if (head.lse != nullptr) term -= static_cast<double>(head.lse[at]);
      const Split parts = split(__dmul_rn(term, kLog2E) - base);
      high[line] = parts.high;
      low[line] = parts.low;
    }
  }

  __device__ __forceinline__ void set_tile(const HeadParameters& head, int tile, int length) {
    Split reference;
    far = false;
    if (head.gate != nullptr) {
      const double first = head.gate[tile * kTileKeys];
      far = spreads(first, head.gate[min(tile * kTileKeys + kTileKeys, length) - 1]);
      reference = split(base - __dmul_rn(first, kLog2E));
    }
#pragma unroll
    for (int line = 0; line < 4; ++line) {
      row_high[line] = high[line] + reference.high;
      row_low[line] = low[line] + reference.low;
    }
  }

  /// Turns a logit in units of log2 into the entry's logarithm without the term that `finish` adds. That term is the
  /// same for all keys of the tile, so extremes over keys may be taken before it.
  __device__ __forceinline__ float begin(float logit, float scale, float2 key, int line) const {
    return far ? fmaf(logit, scale, key.x + row_high[line]) + key.y : fmaf(logit, scale, key.x);
  }
  __device__ __forceinline__ float finish(float x, int line) const {
    return (far ? x : x + row_high[line]) + row_low[line];
  }
};

/// Queries of a warp and the tiles that they need.
struct WarpRows {
  int begin = 0;
  int end = 0;  ///< not above `begin`: none

  __device__ __forceinline__ bool sees(int tile_begin, int tile_end, int window) const {
    return begin < end && tile_begin < end && (window == 0 || tile_end - 1 > begin - window);
  }
  /// Whether some entries of keys [begin_key, end_key) are absent.
  __device__ __forceinline__ bool cut(int begin_key, int end_key, int window) const {
    return end_key - 1 > begin || (window > 0 && begin_key <= end - 1 - window);
  }
};

/// An upper bound of the logarithm of a warp's entries in a tile, in units of log2; NaN, which is below nothing, where
/// one of them may be.
struct Bound {
  double term = 0;
  float norm = 0;

  __device__ __forceinline__ void start(const HeadParameters& head, const WarpRows& rows) {
    const int at = min(rows.begin + static_cast<int>(threadIdx.x) % 32, rows.end - 1);
    term = head.gate == nullptr ? 0.0 : head.gate[at];
    if (head.lse != nullptr) term -= static_cast<double>(head.lse[at]);
    norm = head.row_norm == nullptr ? 0.0F : head.row_norm[at];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      term = maximum(term, __shfl_xor_sync(0xffffffffU, term, lanes));
      norm = maximum(norm, __shfl_xor_sync(0xffffffffU, norm, lanes));
    }
  }

  __device__ __forceinline__ bool below(const HeadParameters& head, int tile, int length, double limit) const {
    if (head.key_norm == nullptr) return false;
    const double last = head.gate == nullptr ? 0.0 : head.gate[min(tile * kTileKeys + kTileKeys, length) - 1];
    const double logit = static_cast<double>(norm) * static_cast<double>(head.key_norm[tile]) *
                         static_cast<double>(head.scale) * (1 + 1e-5);
    return (term - last) * kLog2E + logit < limit - 1e-3;
  }
};

/// Tiles of keys in shared memory, one in use and the others on their way, with the keys' terms.
template <int Stages>
struct KeyBuffers {
  char* memory = nullptr;
  int tile_bytes = 0;

  /// Bytes that one head needs.
  __host__ __device__ static int bytes(int depth, bool float32) {
    return Stages * (kTileKeys * tile_stride(depth, float32) + kTileKeys * 8);
  }
  __device__ __forceinline__ void start(char* at, const HeadParameters& head) {
    memory = at;
    tile_bytes = kTileKeys * tile_stride(head.depth, head.float32);
  }
  __device__ __forceinline__ char* keys(int buffer) const { return memory + buffer * tile_bytes; }
  __device__ __forceinline__ float2* terms(int buffer) const {
    return reinterpret_cast<float2*>(memory + Stages * tile_bytes) + buffer * kTileKeys;
  }
  __device__ __forceinline__ void load(const HeadParameters& head, int tile, int length, int buffer) const {
    if (head.key != nullptr) load_rows(head, head.key, tile * kTileKeys, kTileKeys, length, keys(buffer));
    float2* const to = terms(buffer);
    for (int n = static_cast<int>(threadIdx.x); n < kTileKeys; n += static_cast<int>(blockDim.x)) {
      if (head.terms != nullptr && tile * kTileKeys + n < length) {
        copy_async<8>(to + n, head.terms + tile * kTileKeys + n, true);
      } else {
        to[n] = {0.0F, 0.0F};
      }
    }
  }
};

/// Goes over the tiles of a mask, the next ones on their way while one is in use.
/// @param body  called by all threads of the block with the tile's place in the mask and its buffer
template <int Stages, typename Load, typename Body>
__device__ __forceinline__ void for_tiles(unsigned todo, const Load& load, const Body& body) {
  unsigned to_load = todo;
  const auto load_next = [&](int buffer) {
    if (to_load != 0) load(__ffs(static_cast<int>(to_load)) - 1, buffer);
    to_load &= to_load - 1;
    commit();
  };
  for (int n = 0; n + 1 < Stages; ++n) load_next(n);
  int buffer = 0;
  while (todo != 0) {
    const int now = __ffs(static_cast<int>(todo)) - 1;
    todo &= todo - 1;
    wait<Stages - 2>();
    // All have the tile, and all are done with the one before, whose buffer is the next to be filled.
    __syncthreads();
    load_next(buffer == 0 ? Stages - 1 : buffer - 1);
    body(now, buffer);
    buffer = buffer + 1 == Stages ? 0 : buffer + 1;
  }
  __syncthreads();
}

}  // namespace foxscope::kernels::cuda::maps
