// Products of whole blocks, of linear mixers that decay, into pixels. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/mixing_pixels.cuh"

namespace foxscope::kernels::cuda::maps {

/// Tiles of one thread block: bits 0 to 30 of a mask, and one that is taken once more (below).
constexpr int kMostTiles = 31;
constexpr unsigned kAgain = 1U << 31;

/// A warp's 32 queries, in `Parts` bfloat16 numbers each.
template <int Depth, int Parts>
struct MixingQueries {
  std::uint32_t part[Parts][2][Depth / 16][4];

  /// @param row  of the thread's line 0
  __device__ __forceinline__ void load(const __nv_bfloat16* operand, std::int64_t part_size, int row) {
#pragma unroll
    for (int h = 0; h < Parts; ++h) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int x = 0; x < Depth / 16; ++x) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const std::int64_t at = row + 16 * m + i % 2 * 8;
            const int column = 16 * x + i / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
            part[h][m][x][i] = *reinterpret_cast<const std::uint32_t*>(operand + h * part_size + at * Depth + column);
          }
        }
      }
    }
  }
};

/// Bytes between rows of keys in shared memory, so that eight rows lie in different banks, and of a tile.
template <int Depth, int Parts>
struct MixingTile {
  static constexpr int kStride = Depth * 2 + 16;
  static constexpr int kPart = kTileKeys * kStride;
  static constexpr int kFactors = Parts * kPart;
  static constexpr int kBytes = kFactors + kTileKeys * 4;
  static constexpr int kStages = 3;
};

/// Levels: queries and keys are decayed to the boundaries of their level. Otherwise a query has the factor exp(c_i -
/// c_e), a key one of its own.
template <int Depth, int Parts, bool Levels, MixingOutput Output>
struct MixingPooling : MixingPixels<2, Output> {
  using Base = MixingPixels<2, Output>;
  using Tile = MixingTile<Depth, Parts>;
  using Base::p;
  using Base::row;
  using Base::rows;
  using Base::share;

  const MixingParameters& m;
  MixingQueries<Depth, Parts> queries;
  double gate[4];  ///< c_i of the thread's lines
  int block = 0;   ///< of 64 positions, in which the warp stands
  int group = 0;   ///< first of the thread block's
  int level = -1;  ///< of `queries`

  __device__ __forceinline__ explicit MixingPooling(const MixingParameters& parameters)
      : Base(parameters.pool), m(parameters) {}

  __device__ __forceinline__ void start_rows(int first_row, int block_row) {
    this->start(m, first_row);
    block = first_row / kTileKeys;
    group = block_row / kTileKeys;
    if constexpr (!Levels) {
#pragma unroll
      for (int n = 0; n < 4; ++n) gate[n] = m.gate[row + 8 * n];
      queries.load(m.query, m.part, row);
    }
  }

  /// The level at which the thread block takes a tile before its last: within its own four blocks, the first is taken
  /// at two levels, of which this is the first.
  [[nodiscard]] __device__ __forceinline__ int level_of_tile(int tile) const {
    if (tile < group) return level_of(tile, group);
    return tile == group + 2 ? 0 : 1;
  }

  /// Whether the warp's entries of a tile are below the limit.
  [[nodiscard]] __device__ __forceinline__ bool negligible(int tile, float largest_share) const {
    if (!m.skips) return false;
    // Room for float32's rounding in a bound on entries.
    double bound = static_cast<double>(largest_share) * (1 + 1e-4);
    const int strip = this->first / kWarpRows;
    if constexpr (Levels) {
      const int offset = level_of(tile, block) * m.norms;
      const float* key = m.query_norm + offset + 2 * tile;
      bound *= static_cast<double>(m.query_norm[offset + strip]) * static_cast<double>(maximum(key[0], key[1]));
    } else {
      const float* key = m.key_norm + 2 * tile;
      const int last = min(tile * kTileKeys + kTileKeys, p.length) - 1;
      bound *= static_cast<double>(m.query_norm[strip]) * static_cast<double>(maximum(key[0], key[1])) *
               exp(m.gate[this->first] - m.gate[last]);
    }
    return bound < m.limit;
  }

  /// The tiles of the thread block in which this warp has something to compute.
  __device__ __forceinline__ unsigned needed_tiles(int first_tile) const {
    float largest = maximum(maximum(share[0], share[1]), maximum(share[2], share[3]));
    for (int lanes = 16; lanes > 0; lanes /= 2)
      largest = maximum(largest, __shfl_xor_sync(0xffffffffU, largest, lanes));
    const auto lane = static_cast<int>(threadIdx.x) % 32;
    const bool again = lane == kMostTiles;
    const int tile = again ? group : first_tile + lane;
    bool needed = tile >= first_tile && tile < first_tile + p.tiles_per_item && tile < block;
    needed = needed && max(tile * kTileKeys, p.column_begin) < min(tile * kTileKeys + kTileKeys, p.column_end);
    if constexpr (Levels) {
      if (needed) needed = level_of(tile, block) == (again ? 0 : level_of_tile(tile));
      needed = needed && (!again || tile < p.length);
    } else {
      needed = needed && !again;
    }
    if (needed) needed = !negligible(tile, largest);
    return __ballot_sync(0xffffffffU, needed);
  }

  /// Starts copying a tile, by all threads of the block.
  __device__ __forceinline__ void load(int tile, int tile_level, char* to) const {
    constexpr int kPieces = Depth / 8;
    const __nv_bfloat16* from = Levels ? m.query + tile_level * Parts * m.part : m.key;
    from += std::int64_t{tile} * kTileKeys * Depth;
    for (int n = static_cast<int>(threadIdx.x); n < Parts * kTileKeys * kPieces; n += static_cast<int>(blockDim.x)) {
      const int part = n / (kTileKeys * kPieces);
      const int key = n / kPieces % kTileKeys;
      const int piece = n % kPieces;
      copy_async<16>(to + part * Tile::kPart + key * Tile::kStride + piece * 16,
                     from + part * m.part + key * Depth + piece * 8, true);
    }
    if constexpr (!Levels) {
      const auto n = static_cast<int>(threadIdx.x);
      if (n < kTileKeys / 4) copy_async<16>(to + Tile::kFactors + n * 16, m.factor + tile * kTileKeys + n * 4, true);
    }
  }

  /// Products of 16 keys from `n` on.
  __device__ __forceinline__ void step(const char* keys, int n, Entries<2>& s) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const char* at = keys + min(n + lane % 16, kTileKeys - 1) * Tile::kStride + lane / 16 * 16;
    clear(s);
#pragma unroll
    for (int x = 0; x < Depth / 16; ++x) {
      std::uint32_t high[4];
      load_fragment(at + 32 * x, high);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        multiply(s[i][0], queries.part[0][i][x], high[0], high[2]);
        multiply(s[i][1], queries.part[0][i][x], high[1], high[3]);
      }
      if constexpr (Parts == 2) {
        std::uint32_t low[4];
        load_fragment(at + Tile::kPart + 32 * x, low);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply(s[i][0], queries.part[1][i][x], high[0], high[2]);
          multiply(s[i][1], queries.part[1][i][x], high[1], high[3]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply(s[i][0], queries.part[0][i][x], low[0], low[2]);
          multiply(s[i][1], queries.part[0][i][x], low[1], low[3]);
        }
      }
    }
  }

  /// A tile that lies in shared memory.
  __device__ __forceinline__ void pool_tile(int tile, int tile_level, const char* keys) {
    float factor[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) factor[n] = share[n];
    if constexpr (Levels) {
      if (tile_level != level) queries.load(m.query + tile_level * Parts * m.part, m.part, row);
      level = tile_level;
    } else {
      const double last = m.gate[min(tile * kTileKeys + kTileKeys, p.length) - 1];
#pragma unroll
      for (int n = 0; n < 4; ++n) factor[n] *= decay_between(gate[n], last);
    }
    const int begin = max(0, p.column_begin - tile * kTileKeys);
    const int end = min(kTileKeys, p.column_end - tile * kTileKeys);
    this->template pool<false>(tile, begin, end, false, factor, [&](int n, Entries<2>& s) {
      step(keys, n, s);
      if constexpr (!Levels) {
        const auto* factors = reinterpret_cast<const float*>(keys + Tile::kFactors);
        const int column = n + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float of_key = factors[min(column + k / 2 * 8 + k % 2, kTileKeys - 1)];
#pragma unroll
          for (int line = 0; line < 4; ++line) s[line / 2][k / 2][line % 2 * 2 + k % 2] *= of_key;
        }
      }
      if (m.sizes) {
#pragma unroll
        for (int k = 0; k < 16; ++k) s[k / 8][k / 4 % 2][k % 4] = fabsf(s[k / 8][k / 4 % 2][k % 4]);
      }
    });
  }
};

template <int Depth, int Parts, MixingOutput Output>
constexpr int mixing_bytes() {
  using Tile = MixingTile<Depth, Parts>;
  return 16 + Tile::kStages * Tile::kBytes +
         (Output == MixingOutput::narrow_bins ? kMostWarps * kWarpRows * (kTileKeys + 1) * 4 : 0);
}

/// One block: 256 rows, from a multiple of 256 on, and up to 31 tiles of keys.
template <int Depth, int Parts, bool Levels, MixingOutput Output>
__global__ void __launch_bounds__(kMostWarps * 32, Depth* Parts > 128 ? 1 : 2)
    mixing_kernel(const __grid_constant__ MixingParameters parameters) {
  extern __shared__ __align__(16) char memory[];
  using Tile = MixingTile<Depth, Parts>;
  const PoolParameters& p = parameters.pool;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Later rows see more keys: they go first.
  const int block_row = (p.row_begin / kGroupRows + static_cast<int>(gridDim.y - 1 - blockIdx.y)) * kGroupRows;
  const int first_tile = p.first_tile + static_cast<int>(blockIdx.x) * p.tiles_per_item;
  if (first_tile * kTileKeys >= min(block_row + kGroupRows, p.row_end)) return;
  MixingPooling<Depth, Parts, Levels, Output> pooling(parameters);
  pooling.start_rows(block_row + warp * kWarpRows, block_row);
  const bool has_rows = pooling.rows.begin < pooling.rows.end;
  if constexpr (Output == MixingOutput::narrow_bins) {
    pooling.stage =
        reinterpret_cast<float*>(memory + 16 + Tile::kStages * Tile::kBytes) + warp * kWarpRows * (kTileKeys + 1);
  }
  auto* mask = reinterpret_cast<unsigned*>(memory);
  if (threadIdx.x == 0) *mask = 0;
  __syncthreads();
  const unsigned mine = has_rows ? pooling.needed_tiles(first_tile) : 0U;
  if (threadIdx.x % 32 == 0 && mine != 0) atomicOr(mask, mine);
  __syncthreads();
  const unsigned all = *mask;
  const auto tile_of = [&](int n) { return n == kMostTiles ? pooling.group : first_tile + n; };
  const auto level_of_bit = [&](int n) { return n == kMostTiles ? 0 : pooling.level_of_tile(first_tile + n); };
  const auto at = [&](int buffer) { return memory + 16 + buffer * Tile::kBytes; };
  for_tiles<Tile::kStages>(
      all, [&](int n, int buffer) { pooling.load(tile_of(n), level_of_bit(n), at(buffer)); },
      [&](int n, int buffer) {
        if ((mine >> n & 1U) != 0) pooling.pool_tile(tile_of(n), level_of_bit(n), at(buffer));
      });
  const int own = pooling.block;
  const int begin = max(0, p.column_begin - own * kTileKeys);
  const int end = min(kTileKeys, min(p.column_end, pooling.rows.end) - own * kTileKeys);
  if (has_rows && own >= first_tile && own < first_tile + p.tiles_per_item && begin < end) {
    pooling.pool_diagonal(parameters, own, begin, end);
  }
  pooling.finish();
}

/// @returns unsupported where a tile does not fit into shared memory, or the rows not into a grid
template <int Depth, int Parts, bool Levels, MixingOutput Output>
Status launch_mixing_kernel(const MixingParameters& m, int tiles, int shared_bytes, cudaStream_t stream) {
  constexpr int kBytes = mixing_bytes<Depth, Parts, Output>();
  if (kBytes > shared_bytes) return Status::unsupported;
  auto* kernel = mixing_kernel<Depth, Parts, Levels, Output>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes))) {
    return Status::failed;
  }
  const PoolParameters& p = m.pool;
  const int groups = (p.row_end + kGroupRows - 1) / kGroupRows - p.row_begin / kGroupRows;
  const dim3 grid(static_cast<unsigned>((tiles + p.tiles_per_item - 1) / p.tiles_per_item),
                  static_cast<unsigned>(groups));
  if (grid.y > kMostGridRows) return Status::unsupported;
  kernel<<<grid, kMostWarps * 32, static_cast<std::size_t>(kBytes), stream>>>(m);
  return launched();
}

template <int Depth, int Parts, bool Levels>
Status launch_mixing(const MixingParameters& m, int tiles, int shared_bytes, cudaStream_t stream) {
  using enum MixingOutput;
  if (m.strip != nullptr) return launch_mixing_kernel<Depth, Parts, Levels, strip>(m, tiles, shared_bytes, stream);
  if (m.pool.staged) return launch_mixing_kernel<Depth, Parts, Levels, narrow_bins>(m, tiles, shared_bytes, stream);
  return launch_mixing_kernel<Depth, Parts, Levels, wide_bins>(m, tiles, shared_bytes, stream);
}

// One function a depth, each in a file of its own.
Status mix_64(const MixingParameters& m, MixingKind kind, int parts, int tiles, int shared_bytes, cudaStream_t stream);
Status mix_128(const MixingParameters& m, MixingKind kind, int parts, int tiles, int shared_bytes, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
