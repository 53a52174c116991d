#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/attention_spread.cuh"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/attention_statistics_rows.cuh"
#include "kernels/cuda/maps/map_device.cuh"
#include "kernels/cuda/maps/map_pooling.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

/// Attention on key 0, and what is beside it.
__global__ void weigh_first(const __grid_constant__ StatisticsBatch batch) {
  const StatisticsParameters p = of_head(batch, blockIdx.y);
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  double on_first = 0;
  if (row < p.length) {
    const bool seen = p.window == 0 || row < p.window;
    double x = 0;
    if (p.head.query != nullptr) {
      for (int first = 0; first < p.head.head_dim; first += 16) {
        float part = 0;
        for (int n = first; n < min(first + 16, p.head.head_dim); ++n) {
          const std::int64_t at = std::int64_t{row} * p.head.head_dim + n;
          part = p.head.float32
                     ? fmaf(static_cast<const float*>(p.head.query)[at], static_cast<const float*>(p.head.key)[n], part)
                     : fmaf(__bfloat162float(static_cast<const __nv_bfloat16*>(p.head.query)[at]),
                            __bfloat162float(static_cast<const __nv_bfloat16*>(p.head.key)[n]), part);
        }
        x += static_cast<double>(part);
      }
      x *= static_cast<double>(p.head.scale) * kLogarithmOf2;
    }
    if (p.head.gate != nullptr) x += p.head.gate[row] - p.head.gate[0];
    const double lse = p.head.lse == nullptr ? 0.0 : static_cast<double>(p.head.lse[row]);
    x -= lse;
    on_first = seen ? exp(x) : 0.0;
    p.beside[row] = seen && row > 0 ? -expm1(x) : 1.0;
    // Rows without key 0 are of keys alone.
    if (row > 0) p.beside[row] -= exp(static_cast<double>(p.sink) - lse);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) on_first += __shfl_xor_sync(0xffffffffU, on_first, lanes);
  if (threadIdx.x % 32 == 0) p.sums.add(kOnFirst, on_first, kSumScale);
}

/// What the pass over all entries takes of a row, and the bounds of 32 of them.
__global__ void weigh_rows(const __grid_constant__ StatisticsBatch batch) {
  const StatisticsParameters p = of_head(batch, blockIdx.y);
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const bool inside = row < p.length;
  const bool counts = row > 0 && inside && !(p.beside[row] <= 0);  // NaN counts, and weighs NaN
  RowTerms terms;
  StripBound strip{-INFINITY, 0.0F, 0.0F};
  if (inside) {
    const double lse = p.head.lse == nullptr ? 0.0 : static_cast<double>(p.head.lse[row]);
    terms.negative_lse = static_cast<float>(-lse * kLog2E);
    terms.weight = counts ? static_cast<float>(1.0 / p.beside[row]) : 0.0F;
    strip.term = -lse;
    strip.weight = terms.weight;
    if (p.head.gate != nullptr) {
      const double gate = p.head.gate[row];
      const Split parts = split((gate - p.head.gate[row / kTileKeys * kTileKeys]) * kLog2E);
      terms.gate_high = parts.high;
      terms.gate_low = parts.low;
      strip.term = gate - lse;
      strip.norm = p.head.row_norm[row];
    }
    p.rows[row] = terms;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    strip.term = maximum(strip.term, __shfl_xor_sync(0xffffffffU, strip.term, lanes));
    strip.norm = maximum(strip.norm, __shfl_xor_sync(0xffffffffU, strip.norm, lanes));
    strip.weight = maximum(strip.weight, __shfl_xor_sync(0xffffffffU, strip.weight, lanes));
  }
  p.sums.count_rows(row, counts);
  if (threadIdx.x % 32 == 0 && inside) p.strips[row / kWarpRows] = strip;
}

__global__ void finish(const __grid_constant__ StatisticsBatch batch, AttentionSums* sums, double* mass,
                       double* mass_without_first) {
  const StatisticsParameters p = of_head(batch, blockIdx.y);
  const int distance = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const std::int64_t at = std::int64_t{blockIdx.y} * p.length;
  p.sums.finish(distance, p.length, sums[blockIdx.y], mass + at, mass_without_first + at);
}

template <class Dot>
int row_sum_bytes(const HeadParameters& head, int warps) {
  int bytes = 16 + KeyBuffers<Dot::kStages>::bytes(head.depth, head.float32);
  if (Dot::kQueriesInMemory) bytes += warps * kWarpRows * tile_stride(head.depth, head.float32);
  return bytes;
}

template <class Dot>
int row_sum_warps(const HeadParameters& head, int shared_bytes) {
  // Rows of blocks differ in their keys: smaller blocks spread better.
  for (const int blocks : {2, 1}) {
    for (int warps = 4; warps >= (blocks == 2 ? 4 : 1); warps /= 2) {
      if (row_sum_bytes<Dot>(head, warps) * blocks <= shared_bytes) return warps;
    }
  }
  return 0;
}

template <class Dot, RowSum Kind>
Status launch_row_sums(const StatisticsBatch& batch, unsigned count, const MapDevice& device, cudaStream_t stream) {
  const StatisticsParameters& p = batch.first;
  const int warps = row_sum_warps<Dot>(p.head, device.shared_bytes);
  if (warps == 0) return Status::unsupported;
  const int bytes = row_sum_bytes<Dot>(p.head, warps);
  auto* kernel = row_sums<Dot, Kind>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const int rows = p.row_end - p.row_begin;
  const int block_rows = warps * kWarpRows;
  const dim3 grid(static_cast<unsigned>((rows + block_rows - 1) / block_rows), count);
  kernel<<<grid, static_cast<unsigned>(block_rows), static_cast<std::size_t>(bytes), stream>>>(batch);
  return launched();
}

/// The layout that keeps a multiprocessor busiest: as many blocks as the kernel is made for, as many warps, and the
/// tiles of the next step on their way. Other blocks compute meanwhile where there is no room for those.
/// @returns without warps where nothing fits
template <class Dot>
SpreadLayout spread_layout(const HeadParameters& head, int shared_bytes) {
  for (int blocks = kSpreadBlocks<Dot>; blocks >= 1; --blocks) {
    for (int warps = kSpreadWarps<Dot>; warps >= (blocks > 1 ? 4 : 2); warps -= 2) {
      for (const bool ahead : {true, false}) {
        const SpreadLayout layout(warps, ahead, head.depth, head.float32);
        if ((ahead || blocks > 1 || warps == 2) && layout.bytes() * blocks <= shared_bytes) return layout;
      }
    }
  }
  return {};
}

template <class Dot, bool Gated>
Status launch_spread(StatisticsBatch batch, unsigned count, const MapDevice& device, cudaStream_t stream) {
  StatisticsParameters& p = batch.first;
  const SpreadLayout layout = spread_layout<Dot>(p.head, device.shared_bytes);
  if (layout.warps == 0) return Status::unsupported;
  auto* kernel = spread<Dot, Gated>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, layout.bytes()))) {
    return Status::failed;
  }
  p.query_slots = layout.query_slots;
  p.key_slots = layout.key_slots;
  const int blocks = layout.warps / 2;
  const int tiles = (p.length + kTileKeys - 1) / kTileKeys;
  const int bands = (tiles + blocks - 1) / blocks;
  // Some 16 blocks for each multiprocessor, and no more than 32 steps each.
  const std::int64_t steps = std::int64_t{tiles} * bands / 2 * count;
  p.steps = static_cast<int>(std::clamp<std::int64_t>(steps / (16 * device.multiprocessors), 4, 32));
  const dim3 grid(static_cast<unsigned>((tiles + p.steps - 1) / p.steps), static_cast<unsigned>(bands), count);
  if (grid.y > kMostGridRows) return Status::unsupported;
  kernel<<<grid, static_cast<unsigned>(layout.warps * 32), static_cast<std::size_t>(layout.bytes()), stream>>>(batch);
  return launched();
}

bool fixed(const HeadParameters& head, int head_dim) {
  return head.query != nullptr && !head.float32 && head.aligned && head.head_dim == head_dim;
}

/// Where the parts of a head's workspace lie, in bytes; what begins as 0 comes first.
struct StatisticsPlan {
  std::int64_t sum = 0, unknown = 0, rows = 0, strips = 0, beside = 0, bytes = 0;
  explicit StatisticsPlan(std::int64_t length) {
    unknown = (kMass + 2 * length) * 8;
    rows = (unknown + (kMass + 2 * length) * 4 + 15) / 16 * 16;
    strips = rows + length * static_cast<std::int64_t>(sizeof(RowTerms));
    beside = strips + (length + kWarpRows - 1) / kWarpRows * static_cast<std::int64_t>(sizeof(StripBound));
    bytes = (beside + length * 8 + 255) / 256 * 256;
  }
};

StatisticsParameters parameters(const MapHead& head) {
  StatisticsParameters p;
  p.head = head_parameters(head, false);
  p.length = static_cast<int>(head.length);
  p.window = static_cast<int>(head.window < head.length ? head.window : 0);
  p.row_end = p.length;
  return p;
}

StatisticsBatch batch_of(const MapHead* heads, const float* sinks, int count) {
  StatisticsBatch batch;
  batch.first = parameters(heads[0]);
  for (int n = 0; n < count; ++n) {
    const HeadParameters head = head_parameters(heads[n], false);
    batch.head[n] = {head.query, head.key,      head.gate,     head.lse,
                     head.terms, head.key_norm, head.row_norm, sinks == nullptr ? -INFINITY : sinks[n]};
    batch.first.head.aligned = batch.first.head.aligned && head.aligned;
  }
  return batch;
}

Status pass_over_entries(const StatisticsBatch& batch, unsigned count, const MapDevice& device, cudaStream_t stream) {
  const HeadParameters& head = batch.first.head;
  const bool gated = head.gate != nullptr;
  const auto launch = [&]<class Dot>() {
    return gated ? launch_spread<Dot, true>(batch, count, device, stream)
                 : launch_spread<Dot, false>(batch, count, device, stream);
  };
  if (fixed(head, 64)) return launch.template operator()<FixedDot<64>>();
  if (fixed(head, 128)) return launch.template operator()<FixedDot<128>>();
  return launch.template operator()<AnyDot>();
}

Status measure(const AttentionStatistics& a, cudaStream_t stream) {
  StatisticsBatch batch = batch_of(a.heads, a.sinks, a.count);
  StatisticsParameters& p = batch.first;
  p.token = a.token;
  const StatisticsPlan plan(p.length);
  auto* memory = static_cast<char*>(a.workspace);
  batch.stride = plan.bytes;
  p.sums.sum = reinterpret_cast<Fixed*>(memory + plan.sum);
  p.sums.unknown = reinterpret_cast<int*>(memory + plan.unknown);
  p.rows = reinterpret_cast<RowTerms*>(memory + plan.rows);
  p.strips = reinterpret_cast<StripBound*>(memory + plan.strips);
  p.beside = reinterpret_cast<double*>(memory + plan.beside);
  p.sums.mass_scale = scale_of_masses(p.length);
  const auto count = static_cast<unsigned>(a.count);
  if (!succeeded(cudaMemset2DAsync(memory, static_cast<std::size_t>(plan.bytes), 0, static_cast<std::size_t>(plan.rows),
                                   count, stream))) {
    return Status::failed;
  }
  MapDevice device;
  if (!current(device)) return Status::failed;
  const dim3 blocks(static_cast<unsigned>((p.length + kThreads - 1) / kThreads), count);
  weigh_first<<<blocks, kThreads, 0, stream>>>(batch);
  if (const Status status = launched(); status != Status::ok) return status;
  const auto sums = fixed(p.head, 64)
                        ? launch_row_sums<FixedDot<64>, RowSum::beside_first>(batch, count, device, stream)
                        : launch_row_sums<AnyDot, RowSum::beside_first>(batch, count, device, stream);
  if (sums != Status::ok) return sums;
  weigh_rows<<<blocks, kThreads, 0, stream>>>(batch);
  if (const Status status = launched(); status != Status::ok) return status;
  if (const Status pass = pass_over_entries(batch, count, device, stream); pass != Status::ok) return pass;
  finish<<<blocks, kThreads, 0, stream>>>(batch, a.sums, a.mass, a.mass_without_first);
  return launched();
}

}  // namespace
}  // namespace maps

Status log_normalizer_without_gate(const MapHead& head, std::int64_t row_begin, std::int64_t row_end, float* rows,
                                   Stream stream) {
  MapHead content = head;
  content.cumulative_log_gate = nullptr;
  content.log_normalizer = nullptr;
  const bool range = row_begin >= 0 && row_begin < row_end && row_end <= head.length;
  if (!maps::head_valid(content) || content.query == nullptr || rows == nullptr || !range) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  maps::StatisticsBatch batch = maps::batch_of(&content, nullptr, 1);
  batch.first.row_begin = static_cast<int>(row_begin);
  batch.first.row_end = static_cast<int>(row_end);
  batch.first.normalizer = rows;
  maps::MapDevice device;
  if (!maps::current(device)) return Status::failed;
  using maps::RowSum;
  return maps::fixed(batch.first.head, 64)
             ? maps::launch_row_sums<maps::FixedDot<64>, RowSum::log_normalizer>(batch, 1, device, stream)
             : maps::launch_row_sums<maps::AnyDot, RowSum::log_normalizer>(batch, 1, device, stream);
}

std::size_t attention_statistics_workspace_bytes(std::int64_t length, int count) {
  return static_cast<std::size_t>(maps::StatisticsPlan(length).bytes * count);
}

Status attention_statistics(const AttentionStatistics& statistics, Stream stream) {
  const bool counted =
      statistics.heads != nullptr && statistics.count >= 1 && statistics.count <= AttentionStatistics::kMostHeads;
  const bool outputs = statistics.sums != nullptr && statistics.mass != nullptr &&
                       statistics.mass_without_first != nullptr && statistics.workspace != nullptr;
  if (!counted || !outputs) return Status::invalid_argument;
  for (int n = 0; n < statistics.count; ++n) {
    const MapHead& head = statistics.heads[n];
    if (!maps::head_valid(head) || !maps::alike(head, statistics.heads[0])) return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  return maps::measure(statistics, stream);
}

}  // namespace foxscope::kernels::cuda
