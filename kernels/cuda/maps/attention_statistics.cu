#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/attention_statistics_rows.cuh"
#include "kernels/cuda/maps/map_pooling.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

/// Attention on key 0, and what is beside it.
__global__ void weigh_first(const __grid_constant__ StatisticsParameters p) {
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
    if (p.head.lse != nullptr) x -= static_cast<double>(p.head.lse[row]);
    on_first = seen ? exp(x) : 0.0;
    p.beside[row] = seen && row > 0 ? -expm1(x) : 1.0;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) on_first += __shfl_xor_sync(0xffffffffU, on_first, lanes);
  if (threadIdx.x % 32 == 0) add(p, kOnFirst, on_first, kSumScale);
}

__global__ void weigh_rows(const __grid_constant__ StatisticsParameters p) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const bool counts = row > 0 && row < p.length && !(p.beside[row] <= 0);  // NaN counts, and weighs NaN
  if (row < p.length) p.weight[row] = counts ? static_cast<float>(1.0 / p.beside[row]) : 0.0F;
  const auto count = static_cast<Fixed>(__popc(__ballot_sync(0xffffffffU, counts)));
  if (threadIdx.x % 32 == 0 && count > 0) atomicAdd(p.sum + kRowsBeside, count);
}

/// Adds a warp's tile to the mass at its 95 distances: a lane has three diagonals, of which the first and the last
/// together are as long as the middle one.
__device__ __forceinline__ void add_mass(const StatisticsParameters& p, const float* stage, const float* weight,
                                         int first_row, int tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum[3] = {};
  float weighted[3] = {};
#pragma unroll 8
  for (int row = 0; row < kWarpRows; ++row) {
    const bool low = row <= lane;
    const int outer_key = low ? row + 63 - lane : row - 1 - lane;
    const int middle_key = row + 31 - lane;
    const float w = weight[row];
    const float outer = stage[row * kStageStride + outer_key];
    const float middle = stage[row * kStageStride + middle_key];
    const float outer_weighted = tile == 0 && outer_key == 0 ? 0.0F : w * outer;
    sum[0] += low ? outer : 0.0F;
    sum[2] += low ? 0.0F : outer;
    weighted[0] += low ? outer_weighted : 0.0F;
    weighted[2] += low ? 0.0F : outer_weighted;
    sum[1] += middle;
    weighted[1] += tile == 0 && middle_key == 0 ? 0.0F : w * middle;
  }
#pragma unroll
  for (int n = 0; n < 3; ++n) {
    const int distance = first_row - tile * kTileKeys + lane + 32 * n - (kTileKeys - 1);
    if (distance < 0 || distance >= p.length || lane + 32 * n >= kTileKeys + kWarpRows - 1) continue;
    if (sum[n] != 0) add(p, kMass + distance, static_cast<double>(sum[n]), p.mass_scale);
    if (weighted[n] != 0) add(p, kMass + p.length + distance, static_cast<double>(weighted[n]), p.mass_scale);
  }
}

/// One block: 32 queries a warp, and up to 32 tiles of keys.
template <class Dot>
__global__ void __launch_bounds__(kMostWarps * 32, 2) spread(const __grid_constant__ StatisticsParameters p) {
  extern __shared__ __align__(16) char memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto block_rows = static_cast<int>(blockDim.x);
  const int block_row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * block_rows;
  const int first_tile = static_cast<int>(blockIdx.x) * p.tiles_per_item;
  if (first_tile * kTileKeys >= min(block_row + block_rows, p.length)) return;
  auto* mask = reinterpret_cast<unsigned*>(memory);
  Reader<Dot> reader;
  char* next = reader.start(p, block_row, memory + 16);
  float* stage = reinterpret_cast<float*>(next) + warp * kWarpRows * (kStageStride + 1);
  float* weight = stage + kWarpRows * kStageStride;
  weight[lane] = reader.rows.begin + lane < p.length ? p.weight[reader.rows.begin + lane] : 0.0F;
  __syncwarp();
  const unsigned mine = reader.rows.begin < reader.rows.end ? reader.needed(p, first_tile, kNegligible) : 0U;
  const unsigned all = combined(mine, mask);
  double entropy = 0;
  double decay = 0;
  double square = 0;
  double on_repeats = 0;
  int token[4] = {};
  if (p.token != nullptr) {
#pragma unroll
    for (int i = 0; i < 4; ++i) token[i] = p.token[min(reader.row + 8 * i, p.length - 1)];
  }
  for_tiles<Dot::kStages>(
      all, [&](int n, int buffer) { reader.buffers.load(p.head, first_tile + n, p.length, buffer); },
      [&](int n, int buffer) {
        if ((mine >> n & 1U) == 0) return;
        const int tile = first_tile + n;
        reader.terms.set_tile(p.head, tile, p.length);
        Split gate[4];
        if (p.head.gate != nullptr) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int row = min(reader.row + 8 * i, p.length - 1);
            gate[i] = split((p.head.gate[row] - p.head.gate[tile * kTileKeys]) * kLog2E);
          }
        }
        float tile_entropy = 0;
        float tile_decay = 0;
        float tile_square = 0;
        float tile_repeats = 0;
        for (int first = 0; first < kTileKeys; first += kStepKeys) {
          Step s;
          reader.logarithms(p, tile, buffer, first, s);
#pragma unroll
          for (int i = 0; i < 16; ++i) {
            const int line = i / 8 * 2 + i % 4 / 2;
            const int key = first + i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
            const float x = s[i / 8][i / 4 % 2][i % 4];
            const bool present = reader.row + 8 * line < p.length && tile * kTileKeys + key < p.length;
            const float entry = present ? exp2_fast(x) : 0.0F;
            stage[(lane / 4 + 8 * line) * kStageStride + key] = entry;
            if (entry != 0) tile_entropy = fmaf(entry, x, tile_entropy);
            const int position = tile * kTileKeys + key;
            const float beside = position > 0 && entry != 0 ? weight[lane / 4 + 8 * line] * entry : 0.0F;
            tile_square = fmaf(beside, beside, tile_square);
            if (p.token != nullptr && entry != 0 && position > 0 && position < reader.row + 8 * line) {
              if (p.token[position - 1] == token[line]) tile_repeats += entry;
            }
            if (p.head.gate != nullptr) {
              const float2 term = reader.buffers.terms(buffer)[key];
              const float fall = (term.x + gate[line].high) + (term.y + gate[line].low);
              if (entry != 0) tile_decay = fmaf(entry, fall, tile_decay);
            }
          }
        }
        entropy -= static_cast<double>(tile_entropy);
        decay += static_cast<double>(tile_decay);
        square += static_cast<double>(tile_square);
        on_repeats += static_cast<double>(tile_repeats);
        __syncwarp();
        add_mass(p, stage, weight, reader.rows.begin, tile);
        __syncwarp();
      });
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    entropy += __shfl_xor_sync(0xffffffffU, entropy, lanes);
    decay += __shfl_xor_sync(0xffffffffU, decay, lanes);
    square += __shfl_xor_sync(0xffffffffU, square, lanes);
    on_repeats += __shfl_xor_sync(0xffffffffU, on_repeats, lanes);
  }
  if (lane != 0 || all == 0) return;
  add(p, kEntropy, entropy * kLogarithmOf2, kSumScale);
  add(p, kLogDecay, decay * kLogarithmOf2, kSumScale);
  add(p, kSquare, square, kSumScale);
  add(p, kOnRepeats, on_repeats, kSumScale);
}

__device__ double value_of(const StatisticsParameters& p, std::int64_t index, double scale) {
  return p.unknown[index] != 0 ? nan("") : static_cast<double>(static_cast<long long>(p.sum[index])) / scale;
}

__global__ void finish(const __grid_constant__ StatisticsParameters p, AttentionSums* sums, double* mass,
                       double* mass_without_first) {
  const int distance = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (distance == 0) {
    *sums = {value_of(p, kEntropy, kSumScale), value_of(p, kOnFirst, kSumScale), value_of(p, kLogDecay, kSumScale),
             value_of(p, kRowsBeside, 1),      value_of(p, kSquare, kSumScale),  value_of(p, kOnRepeats, kSumScale)};
  }
  if (distance >= p.length) return;
  mass[distance] = value_of(p, kMass + distance, p.mass_scale);
  mass_without_first[distance] = value_of(p, kMass + p.length + distance, p.mass_scale);
}

struct Device {
  int multiprocessors = 0;
  int shared_bytes = 0;
};

bool current(Device& device) {
  int index = 0;
  return succeeded(cudaGetDevice(&index)) &&
         succeeded(cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, index)) &&
         succeeded(cudaDeviceGetAttribute(&device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
}

template <class Dot>
int bytes_of(const HeadParameters& head, int warps, bool staged) {
  int bytes = 16 + KeyBuffers<Dot::kStages>::bytes(head.depth, head.float32);
  if (Dot::kQueriesInMemory) bytes += warps * kWarpRows * tile_stride(head.depth, head.float32);
  if (staged) bytes += warps * kWarpRows * (kStageStride + 1) * 4;
  return bytes;
}

template <class Dot>
int warps_of(const HeadParameters& head, bool staged, int shared_bytes) {
  for (const int blocks : {2, 1}) {
    for (int warps = kMostWarps; warps >= (blocks == 2 ? 4 : 1); warps /= 2) {
      if (bytes_of<Dot>(head, warps, staged) * blocks <= shared_bytes) return warps;
    }
  }
  return 0;
}

template <class Dot, RowSum Kind>
Status launch_row_sums(const StatisticsParameters& p, const Device& device, cudaStream_t stream) {
  // Rows of blocks differ in their keys: smaller blocks spread better.
  const int warps = std::min(4, warps_of<Dot>(p.head, false, device.shared_bytes));
  if (warps == 0) return Status::unsupported;
  const int bytes = bytes_of<Dot>(p.head, warps, false);
  auto* kernel = row_sums<Dot, Kind>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const int rows = p.row_end - p.row_begin;
  const int block_rows = warps * kWarpRows;
  kernel<<<static_cast<unsigned>((rows + block_rows - 1) / block_rows), static_cast<unsigned>(block_rows),
           static_cast<std::size_t>(bytes), stream>>>(p);
  return launched();
}

template <class Dot>
Status launch_spread(StatisticsParameters p, const Device& device, cudaStream_t stream) {
  const int warps = warps_of<Dot>(p.head, true, device.shared_bytes);
  if (warps == 0) return Status::unsupported;
  const int bytes = bytes_of<Dot>(p.head, warps, true);
  auto* kernel = spread<Dot>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const std::int64_t tiles = (p.length + kTileKeys - 1) / kTileKeys;
  const int block_rows = warps * kWarpRows;
  p.tiles_per_item = static_cast<int>(std::clamp<std::int64_t>(tiles * tiles / (64 * device.multiprocessors), 2, 32));
  const dim3 grid(static_cast<unsigned>((tiles + p.tiles_per_item - 1) / p.tiles_per_item),
                  static_cast<unsigned>((p.length + block_rows - 1) / block_rows));
  if (grid.y > kMostGridRows) return Status::unsupported;
  kernel<<<grid, static_cast<unsigned>(block_rows), static_cast<std::size_t>(bytes), stream>>>(p);
  return launched();
}

bool fixed_64(const HeadParameters& head) {
  return head.query != nullptr && !head.float32 && head.aligned && head.head_dim == 64;
}

/// Where the parts of the workspace lie, in bytes; what begins as 0 comes first.
struct StatisticsPlan {
  std::int64_t sum = 0, unknown = 0, beside = 0, weight = 0, bytes = 0;
  explicit StatisticsPlan(std::int64_t length) {
    unknown = (kMass + 2 * length) * 8;
    beside = unknown + (kMass + 2 * length) * 4;
    weight = beside + length * 8;
    bytes = weight + length * 4;
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

Status measure(const AttentionStatistics& a, cudaStream_t stream) {
  StatisticsParameters p = parameters(a.head);
  p.token = a.token;
  const StatisticsPlan plan(a.head.length);
  auto* memory = static_cast<char*>(a.workspace);
  p.sum = reinterpret_cast<Fixed*>(memory + plan.sum);
  p.unknown = reinterpret_cast<int*>(memory + plan.unknown);
  p.beside = reinterpret_cast<double*>(memory + plan.beside);
  p.weight = reinterpret_cast<float*>(memory + plan.weight);
  // Shares of at most one a row: sums have room for all rows.
  p.mass_scale = std::exp2(62 - std::ceil(std::log2(static_cast<double>(p.length) + 1)));
  if (!succeeded(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.beside), stream))) return Status::failed;
  Device device;
  if (!current(device)) return Status::failed;
  const auto blocks = static_cast<unsigned>((p.length + kThreads - 1) / kThreads);
  weigh_first<<<blocks, kThreads, 0, stream>>>(p);
  if (const Status status = launched(); status != Status::ok) return status;
  const bool fixed_dot = fixed_64(p.head);
  const auto sums = fixed_dot ? launch_row_sums<FixedDot<64>, RowSum::beside_first>(p, device, stream)
                              : launch_row_sums<AnyDot, RowSum::beside_first>(p, device, stream);
  if (sums != Status::ok) return sums;
  weigh_rows<<<blocks, kThreads, 0, stream>>>(p);
  if (const Status status = launched(); status != Status::ok) return status;
  const auto pass =
      fixed_dot ? launch_spread<FixedDot<64>>(p, device, stream) : launch_spread<AnyDot>(p, device, stream);
  if (pass != Status::ok) return pass;
  finish<<<blocks, kThreads, 0, stream>>>(p, a.sums, a.mass, a.mass_without_first);
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
  maps::StatisticsParameters p = maps::parameters(content);
  p.row_begin = static_cast<int>(row_begin);
  p.row_end = static_cast<int>(row_end);
  p.normalizer = rows;
  maps::Device device;
  if (!maps::current(device)) return Status::failed;
  using maps::RowSum;
  return maps::fixed_64(p.head) ? maps::launch_row_sums<maps::FixedDot<64>, RowSum::log_normalizer>(p, device, stream)
                                : maps::launch_row_sums<maps::AnyDot, RowSum::log_normalizer>(p, device, stream);
}

std::size_t attention_statistics_workspace_bytes(std::int64_t length) {
  return static_cast<std::size_t>(maps::StatisticsPlan(length).bytes);
}

Status attention_statistics(const AttentionStatistics& statistics, Stream stream) {
  const bool outputs = statistics.sums != nullptr && statistics.mass != nullptr &&
                       statistics.mass_without_first != nullptr && statistics.workspace != nullptr;
  if (!maps::head_valid(statistics.head) || !outputs) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  return maps::measure(statistics, stream);
}

}  // namespace foxscope::kernels::cuda
