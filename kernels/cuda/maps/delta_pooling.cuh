// Entries of the delta rule into pixels. Private to kernels/cuda.
//
// A warp has 16 queries and meets the blocks of keys from its own to the left. The rest of its queries, R, stays in
// registers as mma.sync leaves it: with G and N of a block (MixingTables::key and ::left) the entries are S = R G^T,
// and R <- a R + S N, a = exp(c_e - c_(b-1)). Each number is taken in two bfloat16 parts for the products alone.
#pragma once

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/mixing_pixels.cuh"

namespace foxscope::kernels::cuda::maps {

constexpr int kDeltaWarps = 8;
constexpr int kDeltaRows = kDeltaWarps * 16;
/// A rest of a query below this changes no float32 entry.
constexpr float kNothingLeft = 1e-37F;

/// A block's G and N in shared memory, both parts of each. Of wide heads one block has room, whose G gives way to the
/// next block's while N is read, and the other way round.
template <int Depth>
struct DeltaTile {
  static constexpr int kStride = Depth * 2 + 16;
  static constexpr int kPart = kTileKeys * kStride;
  static constexpr int kLeft = 2 * kPart;
  static constexpr int kBytes = 4 * kPart;
  static constexpr int kStages = Depth > 128 ? 1 : 2;
};

/// The left operand of a product of 16 columns, from two neighbouring tiles of 8 as mma.sync leaves them.
struct SplitOperand {
  std::uint32_t high[4];
  std::uint32_t low[4];

  __device__ __forceinline__ SplitOperand(const float (&first)[4], const float (&second)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&from)[4] = i < 2 ? first : second;
      const SplitPair pair = split_pair(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      high[i] = pair.high;
      low[i] = pair.low;
    }
  }
};

/// Right operands of two products, 16 columns each, from tiles of 8 by 8 in the order that mma.sync wants them.
struct RightOperands {
  std::uint32_t high[2][4];
  std::uint32_t low[2][4];
};

/// Four products of 16 rows x 8 columns over 16, of numbers in two parts.
/// @tparam Transposed  right operands come from load_transposed, else from load_fragment
template <bool Transposed>
__device__ __forceinline__ void multiply_split(float (&a)[2][4], float (&b)[2][4], const SplitOperand& left,
                                               const RightOperands& right) {
  constexpr int kSecond = Transposed ? 1 : 2;
  constexpr int kNext = Transposed ? 2 : 1;
  const auto four = [&](const std::uint32_t(&l)[4], const std::uint32_t(&r)[2][4]) {
#pragma unroll
    for (int n = 0; n < 2; ++n) multiply(a[n], l, r[0][n * kNext], r[0][n * kNext + kSecond]);
#pragma unroll
    for (int n = 0; n < 2; ++n) multiply(b[n], l, r[1][n * kNext], r[1][n * kNext + kSecond]);
  };
  four(left.high, right.high);
  four(left.low, right.high);
  four(left.high, right.low);
}

template <int Depth, MixingOutput Output>
struct DeltaPooling : MixingPixels<1, Output> {
  using Base = MixingPixels<1, Output>;
  using Tile = DeltaTile<Depth>;
  using Base::p;
  using Base::row;
  using Base::rows;
  using Base::share;

  const MixingParameters& m;
  float left[Depth / 16][2][4];  ///< of the queries
  int block = 0;                 ///< of 64 positions, in which the warp stands
  bool alive = false;            ///< something is left

  __device__ __forceinline__ explicit DeltaPooling(const MixingParameters& parameters)
      : Base(parameters.pool), m(parameters) {}

  __device__ __forceinline__ void start_rows(int first_row) {
    this->start(m, first_row);
    block = first_row / kTileKeys;
    alive = rows.begin < rows.end;
#pragma unroll
    for (int at = 0; at < Depth / 4; ++at) {
      const int column = at / 4 * 16 + at / 2 % 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
      const std::int64_t line = row + at % 2 * 8;
      const auto pair = *reinterpret_cast<const float2*>(m.start + line * Depth + column);
      left[at / 4][at / 2 % 2][at % 2 * 2] = pair.x;
      left[at / 4][at / 2 % 2][at % 2 * 2 + 1] = pair.y;
    }
  }

  /// Starts copying a block, by all threads: of G (0 and 1) and N (2 and 3) the parts from the first to before the
  /// last.
  __device__ __forceinline__ void load(int tile, char* to, int begin = 0, int end = 4) const {
    constexpr int kPieces = Depth / 8;
    const std::int64_t from = std::int64_t{tile} * kTileKeys * Depth;
    for (int n = static_cast<int>(threadIdx.x); n < (end - begin) * kTileKeys * kPieces; n += kDeltaWarps * 32) {
      const int part = begin + n / (kTileKeys * kPieces);
      const int key = n / kPieces % kTileKeys;
      const int piece = n % kPieces;
      const __nv_bfloat16* operand = (part < 2 ? m.key : m.left) + part % 2 * m.part;
      copy_async<16>(to + part * Tile::kPart + key * Tile::kStride + piece * 16,
                     operand + from + key * Depth + piece * 8, true);
    }
  }

  /// The entries of a block, and what it leaves of the queries.
  /// @param goes_on  another block follows
  __device__ __forceinline__ void pass(int tile, const char* keys, bool goes_on) {
    Entries<1> s[4];
    multiply_keys(tile, keys, s);
    if (goes_on) update(s, m.factor[tile], keys + Tile::kLeft);
  }

  /// The entries of a block, which become pixels.
  __device__ __forceinline__ void multiply_keys(int tile, const char* keys, Entries<1> (&s)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int at = 0; at < 32; ++at) s[at / 8][0][at / 4 % 2][at % 4] = 0;
#pragma unroll
    for (int x = 0; x < Depth / 16; ++x) {
      const SplitOperand of_rows(left[x][0], left[x][1]);
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        const char* at = keys + (16 * k + lane % 16) * Tile::kStride + lane / 16 * 16 + 32 * x;
        RightOperands of_keys;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          load_fragment(at + 16 * n * Tile::kStride, of_keys.high[n]);
          load_fragment(at + 16 * n * Tile::kStride + Tile::kPart, of_keys.low[n]);
        }
        multiply_split<false>(s[k][0], s[k + 1][0], of_rows, of_keys);
      }
    }
    const int begin = max(0, p.column_begin - tile * kTileKeys);
    const int end = min(kTileKeys, p.column_end - tile * kTileKeys);
    if (begin < end) {
      this->template pool<true>(tile, begin, end, false, share, [&](int n, Entries<1>& to) {
#pragma unroll
        for (int at = 0; at < 8; ++at) {
          const float x = s[n / kStepKeys][0][at / 4][at % 4];
          to[0][at / 4][at % 4] = m.sizes ? fabsf(x) : x;
        }
      });
    }
  }

  __device__ __forceinline__ void update(const Entries<1> (&s)[4], float factor, const char* taken) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int at = 0; at < Depth / 2; ++at) left[at / 8][at / 4 % 2][at % 4] *= factor;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const SplitOperand of_rows(s[k][0][0], s[k][0][1]);
#pragma unroll
      for (int x = 0; x < Depth / 16; x += 2) {
        const char* at = taken + (16 * k + lane % 16) * Tile::kStride + lane / 16 * 16 + 32 * x;
        RightOperands of_keys;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          load_transposed(at + 32 * n, of_keys.high[n]);
          load_transposed(at + 32 * n + Tile::kPart, of_keys.low[n]);
        }
        multiply_split<true>(left[x], left[x + 1], of_rows, of_keys);
      }
    }
  }

  /// Where entries of 0 change no pixel, a warp ends when nothing is left of its queries.
  __device__ __forceinline__ void look_whether_alive() {
    float largest = 0;
#pragma unroll
    for (int at = 0; at < Depth / 2; ++at) largest = maximum(largest, fabsf(left[at / 8][at / 4 % 2][at % 4]));
    alive = __any_sync(0xffffffffU, !(largest < kNothingLeft)) != 0;
  }
};

template <int Depth, MixingOutput Output>
constexpr int delta_bytes() {
  return DeltaTile<Depth>::kStages * DeltaTile<Depth>::kBytes +
         (Output == MixingOutput::narrow_bins ? kDeltaRows * (kTileKeys + 1) * 4 : 0);
}

/// One block: 128 rows, from a multiple of 128 on, and all keys before them.
template <int Depth, MixingOutput Output>
__global__ void __launch_bounds__(kDeltaWarps * 32, Depth > 64 ? 1 : 2)
    delta_kernel(const __grid_constant__ MixingParameters parameters) {
  extern __shared__ __align__(16) char memory[];
  using Tile = DeltaTile<Depth>;
  const PoolParameters& p = parameters.pool;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Later rows see more keys: they go first.
  const int block_row = (p.row_begin / kDeltaRows + static_cast<int>(gridDim.x - 1 - blockIdx.x)) * kDeltaRows;
  DeltaPooling<Depth, Output> pooling(parameters);
  pooling.start_rows(block_row + warp * 16);
  if constexpr (Output == MixingOutput::narrow_bins) {
    pooling.stage = reinterpret_cast<float*>(memory + Tile::kStages * Tile::kBytes) + warp * 16 * (kTileKeys + 1);
  }
  const int own = pooling.block;
  const int begin = max(0, p.column_begin - own * kTileKeys);
  const int end = min(kTileKeys, min(p.column_end, pooling.rows.end) - own * kTileKeys);
  if (pooling.alive && begin < end) pooling.pool_diagonal(parameters, own, begin, end);

  // The upper half of the rows meets the block of the lower half.
  int tile = block_row / kTileKeys;
  int buffer = 0;
  if (tile >= p.first_tile) pooling.load(tile, memory);
  commit();
  for (; tile >= p.first_tile; --tile) {
    wait<0>();
    // All have the block, and all are done with the one before, whose buffer is the next to be filled.
    if (__syncthreads_or(pooling.alive ? 1 : 0) == 0) break;
    if (tile > p.first_tile) pooling.load(tile - 1, memory + (1 - buffer) * Tile::kBytes);
    commit();
    if (pooling.alive && tile < pooling.block) {
      pooling.pass(tile, memory + buffer * Tile::kBytes, tile > p.first_tile);
      if (parameters.skips && tile % 4 == 0) pooling.look_whether_alive();
    }
    buffer = 1 - buffer;
  }
  wait<0>();
  pooling.finish();
}

/// The same of wide heads: one block's G and N have room, and each is copied while the other is read.
template <int Depth>
__global__ void __launch_bounds__(kDeltaWarps * 32, 1)
    wide_delta_kernel(const __grid_constant__ MixingParameters parameters) {
  extern __shared__ __align__(16) char memory[];
  const PoolParameters& p = parameters.pool;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int block_row = (p.row_begin / kDeltaRows + static_cast<int>(gridDim.x - 1 - blockIdx.x)) * kDeltaRows;
  DeltaPooling<Depth, MixingOutput::strip> pooling(parameters);
  pooling.start_rows(block_row + warp * 16);
  const int own = pooling.block;
  const int end = min(kTileKeys, min(p.column_end, pooling.rows.end) - own * kTileKeys);
  if (pooling.alive && end > 0) pooling.pool_diagonal(parameters, own, 0, end);

  int tile = block_row / kTileKeys;
  pooling.load(tile, memory, 0, 2);
  commit();
  pooling.load(tile, memory, 2, 4);
  commit();
  for (; tile >= 0; --tile) {
    // The block's G is there.
    wait<1>();
    if (__syncthreads_or(pooling.alive ? 1 : 0) == 0) break;
    const bool meets = pooling.alive && tile < pooling.block;
    Entries<1> s[4];
    if (meets) pooling.multiply_keys(tile, memory, s);
    __syncthreads();
    if (tile > 0) pooling.load(tile - 1, memory, 0, 2);
    commit();
    // And its N.
    wait<1>();
    __syncthreads();
    if (meets && tile > 0) {
      pooling.update(s, parameters.factor[tile], memory + DeltaTile<Depth>::kLeft);
      if (parameters.skips && tile % 4 == 0) pooling.look_whether_alive();
    }
    __syncthreads();
    if (tile > 0) pooling.load(tile - 1, memory, 2, 4);
    commit();
  }
  wait<0>();
}

/// @returns unsupported where a block does not fit into shared memory
inline Status launch_delta_rows(void (*kernel)(MixingParameters), int bytes, const MixingParameters& m,
                                int shared_bytes, cudaStream_t stream) {
  if (bytes > shared_bytes) return Status::unsupported;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const PoolParameters& p = m.pool;
  const int groups = (p.row_end + kDeltaRows - 1) / kDeltaRows - p.row_begin / kDeltaRows;
  kernel<<<static_cast<unsigned>(groups), kDeltaWarps * 32, static_cast<std::size_t>(bytes), stream>>>(m);
  return launched();
}

template <int Depth>
Status launch_wide_delta(const MixingParameters& m, int shared_bytes, cudaStream_t stream) {
  return launch_delta_rows(wide_delta_kernel<Depth>, DeltaTile<Depth>::kBytes, m, shared_bytes, stream);
}

template <int Depth, MixingOutput Output>
Status launch_delta_kernel(const MixingParameters& m, int shared_bytes, cudaStream_t stream) {
  return launch_delta_rows(delta_kernel<Depth, Output>, delta_bytes<Depth, Output>(), m, shared_bytes, stream);
}

template <int Depth>
Status launch_delta(const MixingParameters& m, int shared_bytes, cudaStream_t stream) {
  using enum MixingOutput;
  if (m.strip != nullptr) return launch_delta_kernel<Depth, strip>(m, shared_bytes, stream);
  if (m.pool.staged) return launch_delta_kernel<Depth, narrow_bins>(m, shared_bytes, stream);
  return launch_delta_kernel<Depth, wide_bins>(m, shared_bytes, stream);
}

// One function a depth, each in a file of its own.
Status mix_delta_64(const MixingParameters& m, int shared_bytes, cudaStream_t stream);
Status mix_delta_128(const MixingParameters& m, int shared_bytes, cudaStream_t stream);
/// Takes depths 192 and 256, and writes strips alone.
Status write_wide_delta(const MixingParameters& m, int depth, int shared_bytes, cudaStream_t stream);

}  // namespace foxscope::kernels::cuda::maps
