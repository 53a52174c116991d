// Tiles of entries into pixels. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/map_gather.cuh"
#include "kernels/cuda/maps/map_pixels.cuh"
#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/cuda/maps/pooled_map.h"

namespace foxscope::kernels::cuda::maps {

template <class Dot, int Heads, PoolMode Mode>
struct Pooling : WarpPixels<Mode, 4> {
  using Pixels = WarpPixels<Mode, 4>;
  using Pixels::kStageStride;
  using Pixels::p;
  using Pixels::reduction;
  using Pixels::row;
  using Pixels::rows;
  using Pixels::stage;

  Dot dot[Heads];
  LogTerms terms[Heads];
  KeyBuffers<Dot::kStages> buffers[Heads];

  __device__ __forceinline__ explicit Pooling(const PoolParameters& parameters) : Pixels(parameters) {}

  [[nodiscard]] __device__ __forceinline__ MapValue value() const {
    return Mode == PoolMode::any ? p.value : MapValue::attention;
  }
  [[nodiscard]] __device__ __forceinline__ bool logarithm() const {
    return Mode == PoolMode::any ? p.logarithm : Mode == PoolMode::peaks;
  }
  [[nodiscard]] __device__ __forceinline__ bool staged() const { return Mode == PoolMode::any && p.staged; }

  /// Turns logits into entries, or where extremes of logarithms are pooled line by line into what `finish` completes.
  __device__ __forceinline__ void values(int head, const float2* key_terms, int first, Step& s) const {
    const HeadParameters& h = p.head[head];
    const LogTerms& t = terms[head];
    if (value() == MapValue::logit) {
#pragma unroll
      for (int n = 0; n < 16; ++n) s[n / 8][n / 4 % 2][n % 4] *= h.scale;
      return;
    }
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float2 key = key_terms[min(first + 8 * n + column + e, kTileKeys - 1)];
#pragma unroll
        for (int line = 0; line < 4; ++line) {
          float& x = s[line / 2][n][line % 2 * 2 + e];
          x = t.begin(x, h.scale, key, line);
        }
      }
    }
    if (logarithm() && !staged()) return;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      float& x = s[n / 8][n / 4 % 2][n % 4];
      x = t.finish(x, n / 8 * 2 + n % 4 / 2);
    }
    if (logarithm()) return;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      float& x = s[n / 8][n / 4 % 2][n % 4];
      x = value() == MapValue::attention ? exp2_fast(x) : x * kLn2;
    }
  }

  /// Entries of 16 keys from `first` on in the tile; those absent, or at `end` and beyond, are the identity.
  __device__ __forceinline__ void entries(int tile, int buffer, int first, int end, Step& s) const {
    dot[0].step(p.head[0], buffers[0].keys(buffer), first, s);
    values(0, buffers[0].terms(buffer), first, s);
    if constexpr (Heads == 2) {
      Step other;
      dot[1].step(p.head[1], buffers[1].keys(buffer), first, other);
      values(1, buffers[1].terms(buffer), first, other);
#pragma unroll
      for (int n = 0; n < 16; ++n) s[n / 8][n / 4 % 2][n % 4] -= other[n / 8][n / 4 % 2][n % 4];
    }
    const int key = tile * kTileKeys + first;
    if (first + kStepKeys <= end && !rows.cut(key, key + kStepKeys, p.window)) return;
    const float none = identity(reduction());
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int offset = n / 4 % 2 * 8 + column + n % 2;
      const int distance = row + n / 8 * 16 + n % 4 / 2 * 8 - (key + offset);
      const bool absent = first + offset >= end || distance < 0 || (p.window > 0 && distance >= p.window);
      if (absent) s[n / 8][n / 4 % 2][n % 4] = none;
    }
  }

  /// Adds a thread's four lines, each over some keys of one column of pixels.
  __device__ __forceinline__ void flush(float (&line)[4], int column) const {
    if (logarithm()) {
#pragma unroll
      for (int n = 0; n < 4; ++n) line[n] = terms[0].finish(line[n], n);
    }
    this->add_lines(line, column);
  }

  /// Bins of 16 columns and more: lines gather in registers until their bin ends.
  __device__ __forceinline__ void pool_lines(int tile, int buffer, int begin, int end) const {
    int column = p.column_bin[tile * kTileKeys + begin - p.column_begin];
    if constexpr (Mode != PoolMode::any) {
      const bool whole = begin == 0 && end == kTileKeys && p.column_edge[column + 1] >= tile * kTileKeys + kTileKeys;
      if (whole && !terms[0].far && !rows.cut(tile * kTileKeys, tile * kTileKeys + kTileKeys, p.window)) {
        pool_whole(buffer, column);
        return;
      }
    }
    while (begin < end) {
      const int piece = min(end, p.column_edge[column + 1] - tile * kTileKeys);
      float line[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) line[n] = identity(reduction());
      for (int first = begin; first < piece; first += kStepKeys) {
        Step s;
        entries(tile, buffer, first, piece, s);
        gather(s, line);
      }
      flush(line, column);
      begin = piece;
      ++column;
    }
  }

  /// A tile of present entries that all belong to one column of pixels: no questions on the way.
  __device__ __forceinline__ void pool_whole(int buffer, int column) const {
    const HeadParameters& h = p.head[0];
    const LogTerms& t = terms[0];
    const float2* const keys = buffers[0].terms(buffer) + threadIdx.x % 4 * 2;
    const bool gated = h.gate != nullptr;
    float line[4];
#pragma unroll
    for (float& x : line) x = identity(reduction());
#pragma unroll
    for (int first = 0; first < kTileKeys; first += kStepKeys) {
      Step s;
      dot[0].step(h, buffers[0].keys(buffer), first, s);
      float term[4] = {};
      if (gated) {
#pragma unroll
        for (int n = 0; n < 4; ++n) term[n] = keys[first + n / 2 * 8 + n % 2].x;
      }
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int at = n / 8 * 2 + n % 4 / 2;
        const float logit = s[n / 8][n / 4 % 2][n % 4];
        if constexpr (Mode == PoolMode::peaks) {
          line[at] = maximum(line[at], gated ? fmaf(logit, h.scale, term[n / 4 % 2 * 2 + n % 2]) : logit);
        } else {
          line[at] += exp2_fast(t.finish(fmaf(logit, h.scale, term[n / 4 % 2 * 2 + n % 2]), at));
        }
      }
    }
    if (Mode == PoolMode::peaks && !gated) {
#pragma unroll
      for (float& x : line) x *= h.scale;
    }
    flush(line, column);
  }

  __device__ __forceinline__ void gather(const Step& s, float (&line)[4]) const {
    switch (reduction()) {
      case MapReduction::max:
        return gather_by(s, line, MapReduction::max);
      case MapReduction::min:
        return gather_by(s, line, MapReduction::min);
      case MapReduction::mean:
        return gather_by(s, line, MapReduction::mean);
      default:
        return gather_by(s, line, MapReduction::absmax);
    }
  }
  static __device__ __forceinline__ void gather_by(const Step& s, float (&line)[4], MapReduction reduction) {
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      float& to = line[n / 8 * 2 + n % 4 / 2];
      to = combine(to, s[n / 8][n / 4 % 2][n % 4], reduction);
    }
  }

  /// Smaller bins: a warp's tile is laid out in shared memory, and lanes gather groups of four rows of a column.
  __device__ __forceinline__ void pool_stage(int tile, int buffer, int begin, int end) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int first = begin; first < end; first += kStepKeys) {
      Step s;
      entries(tile, buffer, first, end, s);
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int key = first + n / 4 % 2 * 8 + lane % 4 * 2 + n % 2;
        const int line = lane / 4 + n / 8 * 16 + n % 4 / 2 * 8;
        if (key < end) stage[line * kStageStride + key] = s[n / 8][n / 4 % 2][n % 4];
      }
    }
    __syncwarp();
    if (p.by_distance) {
      this->gather_diagonals(rows.begin, tile * kTileKeys, begin, end);
    } else {
      this->gather_stage(rows.begin, tile * kTileKeys, begin, end);
    }
    __syncwarp();
  }

  /// The tiles of the item in which this warp has something to compute.
  __device__ __forceinline__ unsigned needed_tiles(int first_tile) const {
    Bound bound[Heads];
#pragma unroll
    for (int h = 0; h < Heads; ++h) bound[h].start(p.head[h], rows);
    const int tile = first_tile + static_cast<int>(threadIdx.x) % 32;
    const int begin = max(tile * kTileKeys, p.key_begin);
    const int end = min(tile * kTileKeys + kTileKeys, p.column_end);
    bool needed = static_cast<int>(threadIdx.x) % 32 < p.tiles_per_item && begin < end;
    needed = needed && rows.sees(begin, end, p.window);
    if (needed) {
      bool nothing = true;
#pragma unroll
      for (int h = 0; h < Heads; ++h) nothing = nothing && bound[h].below(p.head[h], tile, p.length, p.limit);
      needed = !nothing;
    }
    return __ballot_sync(0xffffffffU, needed);
  }
};

/// Bytes of shared memory.
template <class Dot, int Heads, PoolMode Mode>
int pool_bytes(const PoolParameters& p, int warps) {
  int bytes = 16;
  for (int h = 0; h < Heads; ++h) {
    const HeadParameters& head = p.head[h];
    bytes += KeyBuffers<Dot::kStages>::bytes(head.depth, head.float32);
    if (Dot::kQueriesInMemory) bytes += warps * kWarpRows * tile_stride(head.depth, head.float32);
  }
  if (p.staged) bytes += warps * kWarpRows * Pooling<Dot, Heads, Mode>::kStageStride * 4;
  return bytes;
}

/// One block: 32 queries a warp, and up to 32 tiles of keys.
template <class Dot, int Heads, PoolMode Mode>
__global__ void __launch_bounds__(kMostWarps * 32, 2) pool_kernel(const __grid_constant__ PoolParameters p) {
  extern __shared__ __align__(16) char memory[];
  Pooling<Dot, Heads, Mode> pooling(p);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int block_rows = static_cast<int>(blockDim.x);
  // Later rows see more keys: they go first.
  const int block_row = p.row_begin + static_cast<int>(gridDim.y - 1 - blockIdx.y) * block_rows;
  const int block_end = min(block_row + block_rows, p.row_end);
  const int first_tile = p.first_tile + static_cast<int>(blockIdx.x) * p.tiles_per_item;
  if (first_tile * kTileKeys >= block_end) return;
  pooling.rows.begin = block_row + warp * kWarpRows;
  pooling.rows.end = min(pooling.rows.begin + kWarpRows, p.row_end);
  pooling.row = pooling.rows.begin + lane / 4;

  auto* mask = reinterpret_cast<unsigned*>(memory);
  if (threadIdx.x == 0) *mask = 0;
  __syncthreads();
  const unsigned mine = pooling.rows.begin < pooling.rows.end ? pooling.needed_tiles(first_tile) : 0U;
  if (lane == 0 && mine != 0) atomicOr(mask, mine);
  __syncthreads();
  const unsigned all = *mask;
  if (all == 0) return;

  char* next = memory + 16;
#pragma unroll
  for (int h = 0; h < Heads; ++h) {
    const HeadParameters& head = p.head[h];
    pooling.buffers[h].start(next, head);
    next += KeyBuffers<Dot::kStages>::bytes(head.depth, head.float32);
    if constexpr (Dot::kQueriesInMemory) {
      if (head.query != nullptr) load_rows(head, head.query, block_row, block_rows, p.length, next);
    }
    pooling.dot[h].start(head, next, pooling.row, p.length);
    if constexpr (Dot::kQueriesInMemory) next += block_rows * tile_stride(head.depth, head.float32);
    pooling.terms[h].start(head, block_row, pooling.row, p.length);
  }
  pooling.start_bins();
  if (pooling.staged()) {
    pooling.stage = reinterpret_cast<float*>(next) + warp * kWarpRows * Pooling<Dot, Heads, Mode>::kStageStride;
  }
  for_tiles<Dot::kStages>(
      all,
      [&](int n, int buffer) {
#pragma unroll
        for (int h = 0; h < Heads; ++h) pooling.buffers[h].load(p.head[h], first_tile + n, p.length, buffer);
      },
      [&](int n, int buffer) {
        if ((mine >> n & 1U) == 0) return;
        const int tile = first_tile + n;
        const int begin = max(0, p.key_begin - tile * kTileKeys);
        const int end = min(kTileKeys, min(p.column_end, pooling.rows.end) - tile * kTileKeys);
#pragma unroll
        for (int h = 0; h < Heads; ++h) pooling.terms[h].set_tile(p.head[h], tile, p.length);
        if (pooling.staged()) {
          pooling.pool_stage(tile, buffer, begin, end);
        } else {
          pooling.pool_lines(tile, buffer, begin, end);
        }
      });
}

/// The number of warps that lets two blocks fit on a multiprocessor, else one.
/// @returns 0 where even one warp has no room
template <class Dot, int Heads, PoolMode Mode>
int choose_warps(const PoolParameters& p, int shared_bytes) {
  for (const int blocks : {2, 1}) {
    for (int warps = kMostWarps; warps >= (blocks == 2 ? 4 : 1); warps /= 2) {
      if (pool_bytes<Dot, Heads, Mode>(p, warps) * blocks <= shared_bytes) return warps;
    }
  }
  return 0;
}

/// @returns unsupported where a tile does not fit into shared memory, or the rows not into a grid
template <class Dot, int Heads, PoolMode Mode = PoolMode::any>
Status launch_pooling(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream) {
  const int warps = choose_warps<Dot, Heads, Mode>(p, shared_bytes);
  if (warps == 0) return Status::unsupported;
  const int bytes = pool_bytes<Dot, Heads, Mode>(p, warps);
  auto* kernel = pool_kernel<Dot, Heads, Mode>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const int rows = p.row_end - p.row_begin;
  const int block_rows = warps * kWarpRows;
  const dim3 grid(static_cast<unsigned>((tiles + p.tiles_per_item - 1) / p.tiles_per_item),
                  static_cast<unsigned>((rows + block_rows - 1) / block_rows));
  if (grid.y > kMostGridRows) return Status::unsupported;
  kernel<<<grid, static_cast<unsigned>(warps * 32), static_cast<std::size_t>(bytes), stream>>>(p);
  return launched();
}

// One function a kind of product, each in a file of its own.
Status pool_64(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream);
Status pool_128(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream);
Status pool_any(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream);
Status pool_difference(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream);

/// Launch parameters of a head. Shared with attention_statistics.cu.
HeadParameters head_parameters(const MapHead& head, bool logit);
bool head_valid(const MapHead& head);
/// Whether two heads differ in their arrays alone.
bool alike(const MapHead& a, const MapHead& b);

}  // namespace foxscope::kernels::cuda::maps
