// Statistics of linear mixers, from strips of their entries.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/entry_strips.cuh"
#include "kernels/cuda/maps/mixing_statistics.h"
#include "kernels/cuda/maps/mixing_tables.cuh"
#include "kernels/cuda/maps/statistics_sums.cuh"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

constexpr int kThreads = 256;
constexpr int kSpreadRows = 256;  ///< of a block
constexpr std::int64_t kStripBytes = std::int64_t{1} << 30;
constexpr double kLogarithmOf2 = 0.6931471805599453;

struct SpreadParameters {
  EntryStrip strip;
  int length = 0;
  const RowSize* sizes = nullptr;  ///< of the strip's rows
  const double* gate = nullptr;
  const std::int32_t* token = nullptr;
  FixedSums sums;
};

/// Attention on key 0, and the rows that have some beside it.
__global__ void weigh_strip_rows(const __grid_constant__ SpreadParameters p) {
  const int row = p.strip.row_begin + static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  double on_first = 0;
  bool counts = false;
  if (row < p.strip.row_end) {
    const RowSize size = p.sizes[row - p.strip.row_begin];
    const double sum = size.first + size.beside;
    on_first = sum == 0 ? 0.0 : size.first / sum;
    counts = row > 0 && !(size.beside <= 0);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) on_first += __shfl_xor_sync(0xffffffffU, on_first, lanes);
  p.sums.count_rows(row, counts);
  if (threadIdx.x % 32 == 0) p.sums.add(kOnFirst, on_first, kSumScale);
}

/// Sums of one thread over some rows at one distance.
template <typename Number>
struct SpreadSums {
  Number entropy = 0, decay = 0, square = 0, repeats = 0, mass = 0, beside = 0;

  template <typename Other>
  __device__ __forceinline__ void add(const SpreadSums<Other>& other) {
    entropy += static_cast<Number>(other.entropy);
    decay += static_cast<Number>(other.decay);
    square += static_cast<Number>(other.square);
    repeats += static_cast<Number>(other.repeats);
    mass += static_cast<Number>(other.mass);
    beside += static_cast<Number>(other.beside);
  }
};

/// What rows make of their entries.
struct SpreadRows {
  double gate[kSpreadRows];
  float2 factor[kSpreadRows];  ///< 1 / sum over j of |M_ij|, or 0; 1 / the share beside key 0, or 0
  std::int32_t token[kSpreadRows];

  __device__ __forceinline__ void fill(const SpreadParameters& p, int row, int at) {
    const RowSize size = p.sizes[row - p.strip.row_begin];
    const double sum = size.first + size.beside;
    const bool counts = row > 0 && !(size.beside <= 0);              // NaN counts, and weighs NaN
    factor[at].x = sum == 0 ? 0.0F : static_cast<float>(1.0 / sum);  // a row of zeros has no attention
    factor[at].y = counts ? static_cast<float>(sum / size.beside) : 0.0F;
    gate[at] = p.gate == nullptr ? 0.0 : p.gate[row];
    token[at] = p.token == nullptr ? -1 : p.token[row];
  }
};

/// Adds 16 rows at one distance, of which blocks of keys may not be written.
/// @param row  the first, a multiple of 16
/// @param at   its place in `rows`
__device__ __forceinline__ void add_group(const SpreadParameters& p, const SpreadRows& rows, int row, int at,
                                          int distance, SpreadSums<double>& all) {
  const int key = row - distance;
  const int end = min(kGroupOfRows, p.strip.row_end - row);
  const std::uint8_t* const flags = p.strip.flags(row);
  // A diagonal meets two blocks of keys at most.
  const int near = max(key, 0) / kTileKeys;
  const int far = max(key + end - 1, 0) / kTileKeys;
  const bool has_near = key + end > 0 && flags[near] != 0;
  const bool has_far = key + end > 0 && flags[far] != 0;
  if (__any_sync(0xffffffffU, has_near || has_far) == 0) return;
  float x[kGroupOfRows];
#pragma unroll
  for (int n = 0; n < kGroupOfRows; ++n) {
    const bool has = key + n >= 0 && n < end && ((key + n) / kTileKeys == near ? has_near : has_far);
    x[n] = has ? fabsf(p.strip.entries[p.strip.index(row + n, key + n)]) : 0.0F;
  }
  SpreadSums<float> part;
#pragma unroll
  for (int n = 0; n < kGroupOfRows; ++n) {
    const float2 factor = rows.factor[at + n];
    x[n] = x[n] == 0 ? 0.0F : x[n] * factor.x;  // rows behind the last have no factor
    part.mass += x[n];
    if (x[n] != 0) part.entropy -= x[n] * __log2f(x[n]);
    if (key + n <= 0) continue;
    const float rest = x[n] == 0 ? 0.0F : x[n] * factor.y;
    part.beside += rest;
    part.square = fmaf(rest, rest, part.square);
  }
  if (p.gate != nullptr) {
#pragma unroll
    for (int n = 0; n < kGroupOfRows; ++n) {
      const double fall = rows.gate[at + n] - p.gate[max(key + n, 0)];
      if (x[n] != 0) part.decay += x[n] * static_cast<float>(fall);
    }
  }
  if (p.token != nullptr && distance > 0) {
#pragma unroll
    for (int n = 0; n < kGroupOfRows; ++n) {
      const std::int32_t before = p.token[max(key + n - 1, 0)];
      if (key + n > 0 && before == rows.token[at + n]) part.repeats += x[n];
    }
  }
  all.add(part);
}

/// A thread has one distance, and goes along the diagonal.
__global__ void __launch_bounds__(kThreads) spread_strip(const __grid_constant__ SpreadParameters p) {
  __shared__ SpreadRows rows;
  const int first = p.strip.row_begin + static_cast<int>(blockIdx.y) * kSpreadRows;
  const int last = min(first + kSpreadRows, p.strip.row_end);
  const int nearest = static_cast<int>(blockIdx.x) * kThreads;
  if (nearest >= last) return;
  const int mine = first + static_cast<int>(threadIdx.x);
  if (mine < last) rows.fill(p, mine, static_cast<int>(threadIdx.x));
  __syncthreads();
  const int distance = nearest + static_cast<int>(threadIdx.x);
  SpreadSums<double> all;
  for (int row = first; row < last; row += kGroupOfRows) add_group(p, rows, row, row - first, distance, all);
  if (all.mass != 0) p.sums.add(kMass + distance, all.mass, p.sums.mass_scale);  // NaN is not 0
  if (all.beside != 0) p.sums.add(kMass + p.length + distance, all.beside, p.sums.mass_scale);
  double of_warp[4] = {all.entropy * kLogarithmOf2, all.decay, all.square, all.repeats};
  constexpr SumIndex kIndex[4] = {kEntropy, kLogDecay, kSquare, kOnRepeats};
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    for (int lanes = 16; lanes > 0; lanes /= 2) of_warp[n] += __shfl_xor_sync(0xffffffffU, of_warp[n], lanes);
    if (threadIdx.x % 32 == 0 && of_warp[n] != 0) p.sums.add(kIndex[n], of_warp[n], kSumScale);
  }
}

__global__ void finish_spread(const __grid_constant__ SpreadParameters p, AttentionSums* sums, double* mass,
                              double* mass_without_first) {
  p.sums.finish(static_cast<int>(blockIdx.x * kThreads + threadIdx.x), p.length, *sums, mass, mass_without_first);
}

/// Where the parts of the workspace lie, in bytes; what begins as 0 comes first.
struct SpreadPlan {
  std::int64_t unknown = 0, sizes = 0, strip = 0, bytes = 0;
  explicit SpreadPlan(std::int64_t length) {
    unknown = (kMass + 2 * length) * 8;
    sizes = (unknown + (kMass + 2 * length) * 4 + 15) / 16 * 16;
    strip = (sizes + length * static_cast<std::int64_t>(sizeof(RowSize)) + 255) / 256 * 256;
    bytes = strip + StripPlan(length, kStripBytes).bytes(0);
  }
};

unsigned blocks_of(std::int64_t count, int of) { return static_cast<unsigned>((count + of - 1) / of); }

Status measure(const MixingStatistics& a, cudaStream_t stream) {
  const std::int64_t length = a.mixer.head.length;
  const SpreadPlan plan(length);
  auto* memory = static_cast<char*>(a.workspace);
  if (!succeeded(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.sizes), stream))) return Status::failed;
  auto* const sizes = reinterpret_cast<RowSize*>(memory + plan.sizes);
  SpreadParameters p;
  p.length = static_cast<int>(length);
  p.sizes = sizes;
  p.gate = a.gate;
  p.token = a.token;
  p.sums = {reinterpret_cast<Fixed*>(memory), reinterpret_cast<int*>(memory + plan.unknown), scale_of_masses(length)};
  MixingStrip strip;
  strip.head = a.mixer.head;
  strip.tables = a.mixer.tables;
  strip.entries = reinterpret_cast<float*>(memory + plan.strip);
  const StripPlan strips(length, kStripBytes);
  for (; strip.row_end < length; strip.row_begin = strip.row_end) {
    strip.row_end = strips.end_of(strip.row_begin);
    const StripExtent extent(strip.row_begin, strip.row_end);
    strip.written = reinterpret_cast<std::uint8_t*>(strip.entries + extent.entries());
    if (const Status status = mixing_strip(strip, stream); status != Status::ok) return status;
    p.strip.entries = strip.entries;
    p.strip.written = strip.written;
    p.strip.tiles = static_cast<int>(extent.tiles);
    p.strip.row_begin = static_cast<int>(strip.row_begin);
    p.strip.row_end = static_cast<int>(strip.row_end);
    if (const Status status = sum_strip_rows(p.strip, sizes, stream); status != Status::ok) return status;
    const std::int64_t rows = strip.row_end - strip.row_begin;
    weigh_strip_rows<<<blocks_of(rows, kThreads), kThreads, 0, stream>>>(p);
    if (const Status status = launched(); status != Status::ok) return status;
    const dim3 grid(blocks_of(strip.row_end, kThreads), blocks_of(rows, kSpreadRows));
    spread_strip<<<grid, kThreads, 0, stream>>>(p);
    if (const Status status = launched(); status != Status::ok) return status;
  }
  finish_spread<<<blocks_of(length, kThreads), kThreads, 0, stream>>>(p, a.sums, a.mass, a.mass_without_first);
  return launched();
}

}  // namespace
}  // namespace maps

std::size_t mixing_statistics_workspace_bytes(const MixingHead& head) {
  return maps::mixing_sizes_valid(head) ? static_cast<std::size_t>(maps::SpreadPlan(head.length).bytes) : 0;
}

Status mixing_statistics(const MixingStatistics& statistics, Stream stream) {
  const bool outputs = statistics.sums != nullptr && statistics.mass != nullptr &&
                       statistics.mass_without_first != nullptr && statistics.workspace != nullptr;
  if (!maps::mixing_sizes_valid(statistics.mixer.head) || statistics.mixer.tables == nullptr || !outputs) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  return maps::measure(statistics, stream);
}

}  // namespace foxscope::kernels::cuda
