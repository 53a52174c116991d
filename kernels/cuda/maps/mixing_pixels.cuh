// Entries of linear mixers into pixels. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/maps/entry_strips.cuh"
#include "kernels/cuda/maps/map_gather.cuh"
#include "kernels/cuda/maps/mixing_tables.cuh"

namespace foxscope::kernels::cuda::maps {

struct MixingParameters {
  PoolParameters pool;                   ///< rectangle and pixels; its heads are not looked at
  const __nv_bfloat16* query = nullptr;  ///< of MixingTables, and so on
  const __nv_bfloat16* key = nullptr;
  const __nv_bfloat16* left = nullptr;
  const float* start = nullptr;
  const float* diagonal = nullptr;
  const float* factor = nullptr;
  const double* gate = nullptr;
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  std::int64_t part = 0;             ///< numbers from one part of an operand to the next
  int norms = 0;                     ///< of a level
  const float* row_sizes = nullptr;  ///< null: entries are not divided
  bool sizes = false;                ///< entries are their sizes
  bool skips = false;                ///< entries of 0 change no pixel
  float* strip = nullptr;            ///< takes the entries as they are, in place of pixels: MixingStrip::entries
  std::uint8_t* written = nullptr;   ///< MixingStrip::written
  int tiles = 0;                     ///< of the strip, along its keys
  const int* slot = nullptr;         ///< MixingStrip::slot
  bool adds = false;                 ///< to what lies there
  double limit = 0;                  ///< below which entries may be left out, where tiles are
};

/// Entries of 16 keys, as mma.sync leaves them (map_tiles.cuh): [m][n][e].
template <int M>
using Entries = float[M][2][4];

/// Where entries go.
enum class MixingOutput {
  wide_bins,    ///< pixels, by way of registers
  narrow_bins,  ///< pixels of fewer columns than a step, by way of shared memory
  strip,        ///< memory, each for itself
};

/// The pixels of a warp with 16 M rows.
template <int M, MixingOutput Output>
struct MixingPixels : WarpPixels<PoolMode::any, 2 * M> {
  static constexpr int kLines = 2 * M;
  using Pixels = WarpPixels<PoolMode::any, kLines>;
  using Pixels::kStageStride;
  using Pixels::p;
  using Pixels::reduction;
  using Pixels::row;
  using Pixels::rows;
  using Pixels::stage;

  int first = 0;                         ///< row of the warp's line 0, `rows.begin` or before it
  float share[kLines];                   ///< by which a line's entries are multiplied
  const MixingParameters* to = nullptr;  ///< of a strip
  float pending[kLines];                 ///< what tiles have brought to one column of pixels
  int pending_column = -1;

  __device__ __forceinline__ explicit MixingPixels(const PoolParameters& parameters) : Pixels(parameters) {}

  /// @param first_row  of the warp
  __device__ __forceinline__ void start(const MixingParameters& m, int first_row) {
    first = first_row;
    to = &m;
    rows.begin = max(first, p.row_begin);
    rows.end = min(first + 16 * M, p.row_end);
    row = first + static_cast<int>(threadIdx.x) % 32 / 4;
    if constexpr (Output != MixingOutput::strip) {
      this->start_bins();
    } else if (m.slot != nullptr) {
      // A warp whose rows are all left out has none.
      const int mine = first + static_cast<int>(threadIdx.x) % 32;
      const bool wanted = mine >= rows.begin && mine < rows.end && m.slot[mine] >= 0;
      if (__any_sync(0xffffffffU, wanted) == 0) rows.end = rows.begin;
    }
#pragma unroll
    for (int n = 0; n < kLines; ++n) {
      share[n] = 1;
      pending[n] = 0;
      if (m.row_sizes == nullptr) continue;
      const float size = m.row_sizes[min(row + 8 * n, p.length - 1)];
      share[n] = size == 0 ? 0.0F : 1.0F / size;  // a row of zeros has shares of 0
    }
  }

  /// Reduces keys [begin, end) of a tile.
  /// @tparam Fixed    `entries` wants multiples of 16 that the compiler knows
  /// @param diagonal  keys after a row are absent
  /// @param factor    of a line's entries
  /// @param entries   entries(n, s) are those of the tile's 16 keys from n on; of keys past its end nothing is promised
  template <bool Fixed, typename Source>
  __device__ __forceinline__ void pool(int tile, int begin, int end, bool diagonal, const float (&factor)[kLines],
                                       const Source& entries) {
    const int first_key = tile * kTileKeys;
    if constexpr (Output == MixingOutput::strip) {
      const bool adds = begin_block(tile);
      for_steps<Fixed>(begin, end, [&](int n) {
        Entries<M> s;
        entries(n, s);
        store(s, tile, n, diagonal, adds, factor);
      });
    } else if constexpr (Output == MixingOutput::narrow_bins) {
      for_steps<Fixed>(begin, end, [&](int n) {
        Entries<M> s;
        entries(n, s);
        lay_out(s, first_key, n, end, diagonal, factor);
      });
      __syncwarp();
      this->gather_stage(first, first_key, begin, end);
      __syncwarp();
    } else {
      int column = p.column_bin[first_key + begin - p.column_begin];
      while (begin < end) {
        const int piece = min(end, p.column_edge[column + 1] - first_key);
        float line[kLines];
        float low[kLines];
#pragma unroll
        for (int n = 0; n < kLines; ++n) {
          line[n] = identity(reduction());
          low[n] = 0;
        }
        for_steps<Fixed>(begin, piece, [&](int n) {
          Entries<M> s;
          entries(n, s);
          if (diagonal || n < begin || n + kStepKeys > piece) leave_out(first_key, n, begin, piece, diagonal, s);
          gather(s, line, low);
        });
#pragma unroll
        for (int n = 0; n < kLines; ++n) {
          if (reduction() == MapReduction::absmax) line[n] = line[n] >= -low[n] ? line[n] : low[n];
          // A thread may have none of a line's keys here.
          const bool none = line[n] == identity(reduction()) && isinf(line[n]);
          if (!none) line[n] *= factor[n];
        }
        add(line, column);
        begin = piece;
        ++column;
      }
    }
  }

  /// Keys [begin, end) of the tile in which the warp's rows stand.
  __device__ __forceinline__ void pool_diagonal(const MixingParameters& m, int tile, int begin, int end) {
    float one[kLines];
#pragma unroll
    for (float& x : one) x = 1;
    pool<false>(tile, begin, end, true, one, [&](int n, Entries<M>& s) {
      const int column = n + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
      for (int at = 0; at < 8 * M; ++at) {
        const int line = at / 8 * 2 + at % 4 / 2;
        const int key = min(column + at / 4 % 2 * 8 + at % 2, kTileKeys - 1);
        const float x = m.diagonal[std::int64_t{row + 8 * line} * kTileKeys + key];
        s[at / 8][at / 4 % 2][at % 4] = (m.sizes ? fabsf(x) : x) * share[line];
      }
    });
  }

  /// Ends after the last tile.
  __device__ __forceinline__ void finish() {
    if (pending_column >= 0) this->add_lines(pending, pending_column);
  }

 private:
  template <bool Fixed, typename Body>
  static __device__ __forceinline__ void for_steps(int begin, int end, const Body& body) {
    if constexpr (Fixed) {
#pragma unroll
      for (int n = 0; n < kTileKeys; n += kStepKeys) {
        if (n < end && n + kStepKeys > begin) body(n);
      }
    } else {
      for (int n = begin; n < end; n += kStepKeys) body(n);
    }
  }

  /// Marks a block as written. @returns whether entries are added to what lies there
  [[nodiscard]] __device__ __forceinline__ bool begin_block(int tile) const {
    if (to->written == nullptr) return to->adds;
    constexpr int kGroups = kTileKeys / kGroupOfRows;
    std::uint8_t* const flag =
        to->written + std::int64_t{first / kGroupOfRows - p.row_begin / kTileKeys * kGroups} * to->tiles + tile;
    const bool adds = to->adds && *flag != 0;
    __syncwarp();
    const auto lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < M) flag[lane * to->tiles] = 1;
    return adds;
  }

  /// Entries of the block's 16 keys from `n` on; those after the diagonal are 0.
  __device__ __forceinline__ void store(const Entries<M>& s, int tile, int n, bool diagonal, bool adds,
                                        const float (&factor)[kLines]) const {
    n += static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
      const int query = row + 8 * line;
      if (query < rows.begin || query >= rows.end) continue;
      const int at_row = to->slot == nullptr ? query - p.row_begin / kTileKeys * kTileKeys : to->slot[query];
      if (at_row < 0) continue;
      float* const of_row = to->strip + (std::int64_t{at_row / kTileKeys} * to->tiles + tile) * kBlockNumbers +
                            at_row % kTileKeys * kTileKeys;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&e)[4] = s[line / 2][half];
        float2 pair = {e[line % 2 * 2] * factor[line], e[line % 2 * 2 + 1] * factor[line]};
        const int column = n + 8 * half;
        const int key = tile * kTileKeys + column;
        if (diagonal && key > query) pair.x = 0;
        if (diagonal && key + 1 > query) pair.y = 0;
        auto* const at = reinterpret_cast<float2*>(of_row + column);
        if (adds) {
          const float2 there = *at;
          pair.x += there.x;
          pair.y += there.y;
        }
        *at = pair;
      }
    }
  }

  [[nodiscard]] __device__ __forceinline__ bool is_absent(int first_key, int key, int line, bool diagonal) const {
    return diagonal && first_key + key > row + 8 * line;
  }

  __device__ __forceinline__ void leave_out(int first_key, int n, int begin, int end, bool diagonal,
                                            Entries<M>& s) const {
    const float none = identity(reduction());
    const int column = n + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int at = 0; at < 8 * M; ++at) {
      const int key = column + at / 4 % 2 * 8 + at % 2;
      const bool absent = key < begin || key >= end || is_absent(first_key, key, at / 8 * 2 + at % 4 / 2, diagonal);
      if (absent) s[at / 8][at / 4 % 2][at % 4] = none;
    }
  }

  __device__ __forceinline__ void lay_out(const Entries<M>& s, int first_key, int n, int end, bool diagonal,
                                          const float (&factor)[kLines]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float none = identity(reduction());
#pragma unroll
    for (int at = 0; at < 8 * M; ++at) {
      const int key = n + at / 4 % 2 * 8 + lane % 4 * 2 + at % 2;
      const int line = at / 8 * 2 + at % 4 / 2;
      const bool absent = is_absent(first_key, key, line, diagonal);
      const float x = absent ? none : s[at / 8][at / 4 % 2][at % 4] * factor[line];
      if (key < end) stage[(lane / 4 + 8 * line) * kStageStride + key] = x;
    }
  }

  __device__ __forceinline__ void gather(const Entries<M>& s, float (&line)[kLines], float (&low)[kLines]) const {
    const auto each = [&](const auto& join) {
#pragma unroll
      for (int at = 0; at < 8 * M; ++at) {
        const int n = at / 8 * 2 + at % 4 / 2;
        join(line[n], low[n], s[at / 8][at / 4 % 2][at % 4]);
      }
    };
    switch (reduction()) {
      case MapReduction::max:
        return each([](float& to, float& /*low*/, float x) { to = maximum(to, x); });
      case MapReduction::min:
        return each([](float& to, float& /*low*/, float x) { to = minimum(to, x); });
      case MapReduction::mean:
        return each([](float& to, float& /*low*/, float x) { to += x; });
      default:
        return each([](float& to, float& least, float x) {
          to = maximum(to, x);
          least = minimum(least, x);
        });
    }
  }

  /// Lines of one column of pixels are added to it when the next begins.
  __device__ __forceinline__ void add(const float (&line)[kLines], int column) {
    const bool goes_on = column == pending_column;
    if (!goes_on && pending_column >= 0) this->add_lines(pending, pending_column);
    pending_column = column;
#pragma unroll
    for (int n = 0; n < kLines; ++n) pending[n] = goes_on ? combine(pending[n], line[n], reduction()) : line[n];
  }
};

}  // namespace foxscope::kernels::cuda::maps
