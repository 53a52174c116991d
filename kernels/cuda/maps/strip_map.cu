// Maps from strips of entries, and the sums of a strip's rows.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/entry_strips.cuh"
#include "kernels/cuda/maps/map_pooling.cuh"
#include "kernels/cuda/maps/mixing_tables.cuh"
#include "kernels/cuda/maps/strip_map.h"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

constexpr int kThreads = 256;
constexpr int kPoolRows = 64;  ///< of a block
constexpr int kAhead = 8;      ///< rows that a thread reads at once
constexpr std::int64_t kStripBytes = std::int64_t{1} << 29;

constexpr int kSumThreads = 32 * kGroupOfRows;

/// One warp a row, 16 rows a block: those that are written together. A lane has two neighbouring keys of a tile.
__global__ void __launch_bounds__(kSumThreads) sum_rows(const __grid_constant__ EntryStrip strip, RowSize* sizes) {
  const int first = (strip.row_begin / kGroupOfRows + static_cast<int>(blockIdx.x)) * kGroupOfRows;
  const int row = first + static_cast<int>(threadIdx.x) / 32;
  if (row < strip.row_begin || row >= strip.row_end) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint8_t* const flags = strip.flags(row);
  const float* const entries = strip.entries + strip.index(row, 0) + 2 * lane;
  double sum = 0;
  const int own = row / kTileKeys;
#pragma unroll 4
  for (int tile = 0; tile < own; ++tile) {
    const float2 pair = *reinterpret_cast<const float2*>(entries + std::int64_t{tile} * kBlockNumbers);
    const float x = tile == 0 && lane == 0 ? 0.0F : fabsf(pair.x);
    if (flags[tile] != 0) sum += static_cast<double>(x + fabsf(pair.y));
  }
  for (int n = 0; n < 2; ++n) {
    const int key = own * kTileKeys + 2 * lane + n;
    if (key > 0 && key <= row) sum += static_cast<double>(fabsf(strip.at(row, key)));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  if (lane == 0) sizes[row - strip.row_begin] = {static_cast<double>(fabsf(strip.at(row, 0))), sum};
}

/// A head's rows.
struct PoolSide {
  EntryStrip strip;
  const RowSize* sizes = nullptr;  ///< of its rows, where entries are shares of them
  bool mixes = false;              ///< a linear mixer
};

struct StripPool {
  PoolParameters pixels;
  PoolSide side[2];
  bool difference = false;
  bool absolute = false;  ///< entries of linear mixers are their sizes
  int first_key = 0;
};

/// By what a row's entries are multiplied.
__device__ __forceinline__ float share_of(const PoolSide& side, int row, int first_key) {
  if (side.sizes == nullptr) return 1.0F;
  const RowSize size = side.sizes[row - side.strip.row_begin];
  const double sum = first_key == 0 ? size.first + size.beside : size.beside;
  return sum == 0 ? 0.0F : static_cast<float>(1.0 / sum);  // a row of zeros has shares of 0
}

/// Reduces what lanes hold of one row of pixels.
/// @param column    of the lane's pixels; -1: it has none
/// @param together  all lanes have the same
/// @param any       whether the lane holds entries
__device__ __forceinline__ void flush(const PoolParameters& p, int bin, int column, bool together, bool any,
                                      float value) {
  const std::int64_t pixel = std::int64_t{bin} * p.pixel_columns + column;
  if (!together) {
    if (any) put(p, pixel, value);
    return;
  }
  if (__any_sync(0xffffffffU, any) == 0) return;
  const bool leads = threadIdx.x % 32 == 0;
  if (p.reduction == MapReduction::mean) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
    if (leads) add_to_mean(p, pixel, value);
  } else {
    const unsigned code = __reduce_max_sync(0xffffffffU, any ? encode(value, p.reduction) : 0U);
    if (leads) atomicMax(p.extreme + pixel, code);
  }
}

/// A thread has one key, or one distance, and goes down its rows.
template <bool ByDistance, bool Difference>
__global__ void __launch_bounds__(kThreads) pool_strip(const __grid_constant__ StripPool s) {
  __shared__ float share[2][kPoolRows];
  __shared__ int bin_of[kPoolRows];
  const PoolParameters& p = s.pixels;
  const int block = (s.side[0].strip.row_begin / kPoolRows + static_cast<int>(blockIdx.y)) * kPoolRows;
  const int first = max(block, s.side[0].strip.row_begin);
  const int last = min(block + kPoolRows, s.side[0].strip.row_end);
  const int begin = (ByDistance ? p.distance_begin : p.column_begin) + static_cast<int>(blockIdx.x) * kThreads;
  // Row i has the keys up to i, and the distances i - j + 1 up to i + 1.
  if (begin >= last + (ByDistance ? 1 : 0)) return;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < last - first) {
    bin_of[thread] = p.row_bin[first + thread - p.row_begin];
    share[0][thread] = share_of(s.side[0], first + thread, s.first_key);
    if (Difference) share[1][thread] = share_of(s.side[1], first + thread, s.first_key);
  }
  __syncthreads();
  const int at = begin + thread;
  const bool inside = at < (ByDistance ? p.distance_end : p.column_end);
  const int column = inside ? p.column_bin[at - (ByDistance ? p.distance_begin : p.column_begin)] : -1;
  const bool together = __all_sync(0xffffffffU, column == __shfl_sync(0xffffffffU, column, 0) && column >= 0) != 0;
  int bin = bin_of[0];
  float value = identity(p.reduction);
  bool any = false;
  for (int group = 0; group < last - first; group += kAhead) {
    float entry[2][kAhead];
    bool present[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int row = first + group + n;
      const int key = ByDistance ? row - at + 1 : at;
      present[n] = inside && row < last && key >= s.first_key && key <= row && (p.window == 0 || row - key < p.window);
#pragma unroll
      for (int side = 0; side < (Difference ? 2 : 1); ++side) {
        entry[side][n] = present[n] ? s.side[side].strip.at(row, key) : 0.0F;
      }
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (group + n >= last - first) break;
      if (bin_of[group + n] != bin) {
        flush(p, bin, column, together, any, value);
        bin = bin_of[group + n];
        value = identity(p.reduction);
        any = false;
      }
      if (!present[n]) continue;
      // Rounded before they are subtracted: of a head with itself nothing remains.
      const auto value_of = [&](int side) {
        const float x = entry[side][n];
        return __fmul_rn(s.absolute && s.side[side].mixes ? fabsf(x) : x, share[side][group + n]);
      };
      value = combine(value, Difference ? value_of(0) - value_of(1) : value_of(0), p.reduction);
      any = true;
    }
  }
  flush(p, bin, column, together, any, value);
}

unsigned blocks_of(std::int64_t count, int of) { return static_cast<unsigned>((count + of - 1) / of); }

/// The rows of a softmax head, each entry a pixel.
PooledMap entries_of(const MapHead& head, std::int64_t row_begin, std::int64_t row_end, std::int64_t first_key) {
  PooledMap map;
  map.head = head;
  map.row_begin = row_begin;
  map.row_end = map.column_end = row_end;
  map.pixel_rows = row_end - row_begin;
  map.pixel_columns = row_end;
  map.first_key = first_key;
  return map;
}

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Where the parts of the workspace lie, in bytes. A side has its strip, and behind it the sums of its rows or the
/// workspace of its pixels.
struct StripMapPlan {
  StripPlan strips;
  std::size_t side[2] = {}, rest[2] = {};
  std::size_t bytes = 0;

  explicit StripMapPlan(const StripMap& m) : strips(m.map.row_end, kStripBytes) {
    bytes = rounded(pooled_map_workspace_bytes(m.map));
    for (int n = 0; n < (m.map.minus == nullptr ? 1 : 2); ++n) {
      side[n] = bytes;
      rest[n] = bytes + rounded(static_cast<std::size_t>(strips.bytes(m.map.row_begin)));
      bytes = rest[n] + rounded(rest_bytes(m, n));
    }
  }

 private:
  [[nodiscard]] std::size_t rest_bytes(const StripMap& m, int n) const {
    const std::int64_t rows = m.map.row_end - m.map.row_begin;
    if ((n == 0 ? m.mixer : m.minus).tables != nullptr) return static_cast<std::size_t>(rows) * sizeof(RowSize);
    std::size_t most = 0;
    for (std::int64_t begin = m.map.row_begin; begin < m.map.row_end; begin = strips.end_of(begin)) {
      const MapHead& head = n == 0 ? m.map.head : *m.map.minus;
      most = std::max(most, pooled_map_workspace_bytes(entries_of(head, begin, strips.end_of(begin), 0)));
    }
    return most;
  }
};

/// Writes a side's rows, and sums them where entries are shares.
Status write_side(const StripMap& m, int n, const StripMapPlan& plan, std::int64_t row_begin, std::int64_t row_end,
                  PoolSide& side, cudaStream_t stream) {
  const PreparedMixer& mixer = n == 0 ? m.mixer : m.minus;
  char* const memory = static_cast<char*>(m.map.workspace);
  auto* const entries = reinterpret_cast<float*>(memory + plan.side[n]);
  side.strip = {};
  side.strip.entries = entries;
  side.strip.row_begin = static_cast<int>(row_begin);
  side.strip.row_end = static_cast<int>(row_end);
  side.sizes = nullptr;
  side.mixes = mixer.tables != nullptr;
  if (mixer.tables == nullptr) {
    PooledMap map = entries_of(n == 0 ? m.map.head : *m.map.minus, row_begin, row_end, m.map.first_key);
    map.value = m.map.value;
    map.pixels = entries;
    map.workspace = memory + plan.rest[n];
    side.strip.stride = row_end;
    return pooled_map(map, stream);
  }
  const StripExtent extent(row_begin, row_end);
  MixingStrip strip;
  strip.head = mixer.head;
  strip.tables = mixer.tables;
  strip.row_begin = row_begin;
  strip.row_end = row_end;
  strip.entries = entries;
  strip.written = reinterpret_cast<std::uint8_t*>(entries + extent.entries());
  side.strip.written = strip.written;
  side.strip.tiles = static_cast<int>(extent.tiles);
  if (const Status status = mixing_strip(strip, stream); status != Status::ok || m.value != MixingValue::share) {
    return status;
  }
  auto* const sizes = reinterpret_cast<RowSize*>(memory + plan.rest[n]);
  side.sizes = sizes;
  return sum_strip_rows(side.strip, sizes, stream);
}

Status pool(const StripPool& s, cudaStream_t stream) {
  const PoolParameters& p = s.pixels;
  const EntryStrip& strip = s.side[0].strip;
  const int begin = p.by_distance ? p.distance_begin : p.column_begin;
  const int end = p.by_distance ? std::min(p.distance_end, strip.row_end + 1) : std::min(p.column_end, strip.row_end);
  if (begin >= end) return Status::ok;
  const dim3 grid(blocks_of(end - begin, kThreads),
                  blocks_of(strip.row_end - strip.row_begin / kPoolRows * kPoolRows, kPoolRows));
  auto* const kernel = p.by_distance ? (s.difference ? pool_strip<true, true> : pool_strip<true, false>)
                                     : (s.difference ? pool_strip<false, true> : pool_strip<false, false>);
  kernel<<<grid, kThreads, 0, stream>>>(s);
  return launched();
}

Status run(const StripMap& m, cudaStream_t stream) {
  const StripMapPlan plan(m);
  StripPool s;
  const auto window_of = [&](const PreparedMixer& mixer, const MapHead& head) {
    return mixer.tables != nullptr || head.window >= m.map.head.length ? 0 : static_cast<int>(head.window);
  };
  s.pixels.length = static_cast<int>(m.map.head.length);
  s.pixels.reduction = m.map.reduction;
  s.difference = m.map.minus != nullptr;
  s.pixels.window = window_of(m.mixer, m.map.head);
  if (s.difference) {
    const int other = window_of(m.minus, *m.map.minus);
    s.pixels.window =
        s.pixels.window == 0 || other == 0 ? std::max(s.pixels.window, other) : std::min(s.pixels.window, other);
  }
  s.first_key = static_cast<int>(m.map.first_key);
  // As in mixing_map: shares of a row sum to 1, entries may be 2^16 on average over 2^31.
  s.absolute = m.value != MixingValue::mixing;
  s.pixels.sum_scale = m.value == MixingValue::share ? 0x1p40 : 0x1p16;
  if (const Status status = begin_pixels(m.map, s.pixels, stream); status != Status::ok) return status;
  for (std::int64_t begin = m.map.row_begin; begin < m.map.row_end;) {
    const std::int64_t end = plan.strips.end_of(begin);
    for (int n = 0; n < (s.difference ? 2 : 1); ++n) {
      const Status status = write_side(m, n, plan, begin, end, s.side[n], stream);
      if (status != Status::ok) return status;
    }
    if (const Status status = pool(s, stream); status != Status::ok) return status;
    begin = end;
  }
  return finish_pixels(m.map, s.pixels, stream);
}

bool valid(const StripMap& m) {
  const auto valid_side = [&](const PreparedMixer& mixer, const MapHead& head) {
    return mixer.tables == nullptr ? head_valid(head)
                                   : mixing_sizes_valid(mixer.head) && mixer.head.length == m.map.head.length;
  };
  if (!sizes_valid(m.map) || m.map.pixels == nullptr || m.map.workspace == nullptr) return false;
  if (!valid_side(m.mixer, m.map.head)) return false;
  return m.map.minus == nullptr || (m.map.minus->length == m.map.head.length && valid_side(m.minus, *m.map.minus));
}

}  // namespace

Status sum_strip_rows(const EntryStrip& strip, RowSize* sizes, cudaStream_t stream) {
  const int groups = (strip.row_end + kGroupOfRows - 1) / kGroupOfRows - strip.row_begin / kGroupOfRows;
  sum_rows<<<static_cast<unsigned>(groups), kSumThreads, 0, stream>>>(strip, sizes);
  return launched();
}

}  // namespace maps

std::size_t strip_map_workspace_bytes(const StripMap& map) {
  return maps::sizes_valid(map.map) ? maps::StripMapPlan(map).bytes : 0;
}

Status strip_map(const StripMap& map, Stream stream) {
  if (!maps::valid(map)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  return maps::run(map, stream);
}

}  // namespace foxscope::kernels::cuda
