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
constexpr int kPartRows = 32;     ///< whose sums are float32
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

/// What a row makes of its entries.
struct SpreadRow {
  double gate = 0;
  float share = 0;   ///< 1 / sum over j of |M_ij|, or 0
  float weight = 0;  ///< 1 / the share beside key 0, or 0
  std::int32_t token = -1;
};

__device__ __forceinline__ SpreadRow spread_row(const SpreadParameters& p, int row) {
  const RowSize size = p.sizes[row - p.strip.row_begin];
  const double sum = size.first + size.beside;
  SpreadRow result;
  result.share = sum == 0 ? 0.0F : static_cast<float>(1.0 / sum);  // a row of zeros has no attention
  const bool counts = row > 0 && !(size.beside <= 0);              // NaN counts, and weighs NaN
  result.weight = counts ? static_cast<float>(sum / size.beside) : 0.0F;
  if (p.gate != nullptr) result.gate = p.gate[row];
  if (p.token != nullptr) result.token = p.token[row];
  return result;
}

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
  const auto count = static_cast<Fixed>(__popc(__ballot_sync(0xffffffffU, counts)));
  if (threadIdx.x % 32 != 0) return;
  p.sums.add(kOnFirst, on_first, kSumScale);
  if (count > 0) atomicAdd(p.sums.sum + kRowsBeside, count);
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

__device__ __forceinline__ void add_entry(const SpreadParameters& p, const SpreadRow& row, int key, int distance,
                                          float entry, SpreadSums<float>& sums) {
  const float x = fabsf(entry) * row.share;
  sums.mass += x;
  if (x != 0) sums.entropy -= x * __log2f(x);
  if (p.gate != nullptr) sums.decay += x * static_cast<float>(row.gate - p.gate[key]);
  if (key == 0) return;
  const float rest = x * row.weight;
  sums.beside += rest;
  sums.square = fmaf(rest, rest, sums.square);
  if (p.token != nullptr && distance > 0 && p.token[key - 1] == row.token) sums.repeats += x;
}

/// A thread has one distance, and goes along the diagonal.
__global__ void __launch_bounds__(kThreads) spread_strip(const __grid_constant__ SpreadParameters p) {
  __shared__ SpreadRow of_row[kSpreadRows];
  const int first = p.strip.row_begin + static_cast<int>(blockIdx.y) * kSpreadRows;
  const int last = min(first + kSpreadRows, p.strip.row_end);
  const int nearest = static_cast<int>(blockIdx.x) * kThreads;
  if (nearest >= last) return;
  const int mine = first + static_cast<int>(threadIdx.x);
  if (mine < last) of_row[threadIdx.x] = spread_row(p, mine);
  __syncthreads();
  const int distance = nearest + static_cast<int>(threadIdx.x);
  SpreadSums<double> all;
  for (int begin = max(first, distance); begin < last; begin += kPartRows) {
    const int end = min(begin + kPartRows, last);
    SpreadSums<float> part;
    const float* at = p.strip.row(begin) + (begin - distance);
#pragma unroll 8
    for (int row = begin; row < end; ++row) {
      add_entry(p, of_row[row - first], row - distance, distance, *at, part);
      at += p.strip.stride + 1;
    }
    all.add(part);
  }
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
    strip.stride = strip_stride(strip.row_end);
    if (const Status status = mixing_strip(strip, stream); status != Status::ok) return status;
    p.strip = {strip.entries, strip.stride, static_cast<int>(strip.row_begin), static_cast<int>(strip.row_end)};
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
