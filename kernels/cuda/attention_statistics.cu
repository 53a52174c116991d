#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention_statistics.h"
#include "kernels/cuda/map_pooling.cuh"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

constexpr double kLogarithmOf2 = 0.6931471805599453;
constexpr double kNegligible = -40.0;  // log2 of an entry
constexpr double kWellKnown = 1.0 / 16.0;
/// Sums over rows are whole numbers of this part, so that their order does not matter.
constexpr double kSumScale = 1LL << 34;
constexpr int kStageStride = kTileKeys + 1;
constexpr unsigned kThreads = 256;

using Fixed = unsigned long long;

struct Totals {
  Fixed entropy, on_first, log_decay, rows_beside;
};

struct StatisticsParameters {
  HeadParameters head;
  int length = 0;
  int window = 0;
  int row_begin = 0, row_end = 0;
  int tiles_per_item = 32;
  double mass_scale = 0;
  double* beside = nullptr;  ///< [L] what a row has beside key 0
  float* weight = nullptr;   ///< [L] 1 / beside
  Fixed* mass = nullptr;     ///< [2, L] by distance, with and without key 0
  Totals* totals = nullptr;
  float* normalizer = nullptr;  ///< [L] of log_normalizer_without_gate
};

__device__ __forceinline__ Fixed fixed(double value, double scale) {
  return static_cast<Fixed>(__double2ll_rn(value * scale));
}

/// Rows, products and keys of a warp.
template <class Dot>
struct Reader {
  Dot dot;
  LogTerms terms;
  KeyBuffers<Dot::kStages> buffers;
  WarpRows rows;
  Bound bound;
  int row = 0;  ///< of the thread's line 0

  __device__ __forceinline__ char* start(const StatisticsParameters& p, int block_row, char* memory) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    rows.begin = block_row + warp * kWarpRows;
    rows.end = min(rows.begin + kWarpRows, p.row_end);
    row = rows.begin + static_cast<int>(threadIdx.x) % 32 / 4;
    buffers.start(memory, p.head);
    char* next = memory + KeyBuffers<Dot::kStages>::bytes(p.head.depth, p.head.float32);
    const auto block_rows = static_cast<int>(blockDim.x);
    if constexpr (Dot::kQueriesInMemory) {
      if (p.head.query != nullptr) load_rows(p.head, p.head.query, block_row, block_rows, p.length, next);
    }
    dot.start(p.head, next, row, p.length);
    if constexpr (Dot::kQueriesInMemory) next += block_rows * tile_stride(p.head.depth, p.head.float32);
    terms.start(p.head, block_row, row, p.length);
    if (rows.begin < rows.end) bound.start(p.head, rows);
    return next;
  }

  /// Of 32 tiles, or as many as an item has, those that the warp needs.
  __device__ __forceinline__ unsigned needed(const StatisticsParameters& p, int first_tile, double limit) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int tile = first_tile + lane;
    const int begin = tile * kTileKeys;
    const int end = min(begin + kTileKeys, p.length);
    bool wanted = lane < p.tiles_per_item && begin < end && rows.sees(begin, end, p.window);
    if (wanted) wanted = !bound.below(p.head, tile, p.length, limit);
    return __ballot_sync(0xffffffffU, wanted);
  }

  /// log2 of the entries of a step; absent ones -infinity.
  __device__ __forceinline__ void logarithms(const StatisticsParameters& p, int tile, int buffer, int first,
                                             Step& s) const {
    dot.step(p.head, buffers.keys(buffer), first, s);
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
    const int key = tile * kTileKeys + first;
    const bool cut = rows.cut(key, key + kStepKeys, p.window);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int offset = n / 4 % 2 * 8 + column + n % 2;
      const int line = n / 8 * 2 + n % 4 / 2;
      const int distance = row + 8 * line - (key + offset);
      float& x = s[n / 8][n / 4 % 2][n % 4];
      x = terms.finish(terms.begin(x, p.head.scale, buffers.terms(buffer)[first + offset], line), line);
      if (cut && (distance < 0 || (p.window > 0 && distance >= p.window))) x = -INFINITY;
    }
  }
};

/// The masks of all warps of the block.
__device__ __forceinline__ unsigned combined(unsigned mine, unsigned* shared) {
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0 && mine != 0) atomicOr(shared, mine);
  __syncthreads();
  return *shared;
}

enum class RowSum { log_normalizer, beside_first };

/// A running log-sum-exp of a row, or a plain sum where the reference is fixed at 0; of a thread's keys alone.
struct RunningSum {
  float reference = 0;
  float part = 0;
  double sum = 0;

  __device__ __forceinline__ void raise(float largest) {
    if (largest <= reference) return;
    const float factor = reference == -INFINITY ? 0.0F : exp2_fast(reference - largest);
    part *= factor;
    sum *= static_cast<double>(factor);
    reference = largest;
  }
  __device__ __forceinline__ void add(float x) { part += reference == -INFINITY ? 0.0F : exp2_fast(x - reference); }
  __device__ __forceinline__ void close() {
    sum += static_cast<double>(part);
    part = 0;
  }
};

/// One block has its rows to itself and goes over all their keys.
template <class Dot, RowSum Kind>
__global__ void __launch_bounds__(kMostWarps * 32, 2) row_sums(const __grid_constant__ StatisticsParameters p) {
  extern __shared__ __align__(16) char memory[];
  auto* mask = reinterpret_cast<unsigned*>(memory);
  Reader<Dot> reader;
  // Later rows see more keys: they go first.
  const int block_row = p.row_begin + static_cast<int>((gridDim.x - 1 - blockIdx.x) * blockDim.x);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double limit = -INFINITY;
  if constexpr (Kind == RowSum::beside_first) {
    const int mine = block_row + static_cast<int>(threadIdx.x);
    const double beside = mine < p.row_end ? p.beside[mine] : 1.0;
    if (__syncthreads_or(beside < kWellKnown ? 1 : 0) == 0) return;
    // What is left out is small beside the row; here it has to be small beside what key 0 leaves of it.
    limit = beside > 0 ? max(-120.0, kNegligible + log2(beside)) : -120.0;
    for (int lanes = 16; lanes > 0; lanes /= 2) limit = fmin(limit, __shfl_xor_sync(0xffffffffU, limit, lanes));
  }
  reader.start(p, block_row, memory + 16);
  RunningSum line[4];
#pragma unroll
  for (RunningSum& sum : line) sum.reference = Kind == RowSum::log_normalizer ? -INFINITY : 0.0F;
  const int tiles = (min(block_row + static_cast<int>(blockDim.x), p.row_end) + kTileKeys - 1) / kTileKeys;
  for (int base = 0; base < tiles; base += 32) {
    const unsigned mine = reader.rows.begin < reader.rows.end ? reader.needed(p, base, limit) : 0U;
    const unsigned all = combined(mine, mask);
    for_tiles<Dot::kStages>(
        all, [&](int n, int buffer) { reader.buffers.load(p.head, base + n, p.length, buffer); },
        [&](int n, int buffer) {
          if ((mine >> n & 1U) == 0) return;
          const int tile = base + n;
          reader.terms.set_tile(p.head, tile, p.length);
          const int end = min(kTileKeys, reader.rows.end - tile * kTileKeys);
          for (int first = 0; first < end; first += kStepKeys) {
            Step s;
            reader.logarithms(p, tile, buffer, first, s);
            if (Kind == RowSum::beside_first && tile == 0 && first == 0 && lane % 4 == 0) {
#pragma unroll
              for (int i = 0; i < 4; ++i) s[i / 2][0][i % 2 * 2] = -INFINITY;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float x[4] = {s[i / 2][0][i % 2 * 2], s[i / 2][0][i % 2 * 2 + 1], s[i / 2][1][i % 2 * 2],
                                  s[i / 2][1][i % 2 * 2 + 1]};
              if constexpr (Kind == RowSum::log_normalizer) {
                line[i].raise(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
              }
#pragma unroll
              for (const float entry : x) line[i].add(entry);
            }
          }
#pragma unroll
          for (RunningSum& sum : line) sum.close();
        });
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float reference = line[i].reference;
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      reference = fmaxf(reference, __shfl_xor_sync(0xffffffffU, reference, lanes));
    }
    double sum = line[i].sum;
    if (line[i].reference != reference) sum *= static_cast<double>(exp2_fast(line[i].reference - reference));
    for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
    const int row = reader.row + 8 * i;
    if (row >= reader.rows.end || lane % 4 != 0) continue;
    if constexpr (Kind == RowSum::log_normalizer) {
      p.normalizer[row] = static_cast<float>((static_cast<double>(reference) + log2(sum)) * kLogarithmOf2);
    } else {
      p.beside[row] = row == 0 ? 1.0 : sum;
    }
  }
}

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
  if (threadIdx.x % 32 == 0) atomicAdd(&p.totals->on_first, fixed(on_first, kSumScale));
}

__global__ void weigh_rows(const __grid_constant__ StatisticsParameters p) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const bool counts = row > 0 && row < p.length && p.beside[row] > 0;
  if (row < p.length) p.weight[row] = counts ? static_cast<float>(1.0 / p.beside[row]) : 0.0F;
  const auto count = static_cast<Fixed>(__popc(__ballot_sync(0xffffffffU, counts)));
  if (threadIdx.x % 32 == 0 && count > 0) atomicAdd(&p.totals->rows_beside, count);
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
    if (sum[n] != 0) atomicAdd(p.mass + distance, fixed(static_cast<double>(sum[n]), p.mass_scale));
    if (weighted[n] != 0) {
      atomicAdd(p.mass + p.length + distance, fixed(static_cast<double>(weighted[n]), p.mass_scale));
    }
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
            if (entry > 0) tile_entropy = fmaf(entry, x, tile_entropy);
            if (p.head.gate != nullptr) {
              const float2 term = reader.buffers.terms(buffer)[key];
              const float fall = (term.x + gate[line].high) + (term.y + gate[line].low);
              if (entry > 0) tile_decay = fmaf(entry, fall, tile_decay);
            }
          }
        }
        entropy -= static_cast<double>(tile_entropy);
        decay += static_cast<double>(tile_decay);
        __syncwarp();
        add_mass(p, stage, weight, reader.rows.begin, tile);
        __syncwarp();
      });
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    entropy += __shfl_xor_sync(0xffffffffU, entropy, lanes);
    decay += __shfl_xor_sync(0xffffffffU, decay, lanes);
  }
  if (lane != 0 || all == 0) return;
  atomicAdd(&p.totals->entropy, fixed(entropy * kLogarithmOf2, kSumScale));
  atomicAdd(&p.totals->log_decay, fixed(decay * kLogarithmOf2, kSumScale));
}

__device__ double value_of(Fixed sum, double scale) { return static_cast<double>(static_cast<long long>(sum)) / scale; }

__global__ void finish(const __grid_constant__ StatisticsParameters p, AttentionSums* sums, double* mass,
                       double* mass_without_first) {
  const int distance = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (distance == 0) {
    *sums = {value_of(p.totals->entropy, kSumScale), value_of(p.totals->on_first, kSumScale),
             value_of(p.totals->log_decay, kSumScale), static_cast<double>(p.totals->rows_beside)};
  }
  if (distance >= p.length) return;
  mass[distance] = value_of(p.mass[distance], p.mass_scale);
  mass_without_first[distance] = value_of(p.mass[p.length + distance], p.mass_scale);
}

struct Device {
  int multiprocessors = 0;
  int shared_bytes = 0;
};

Device current() {
  Device device;
  int index = 0;
  cudaGetDevice(&index);
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, index);
  cudaDeviceGetAttribute(&device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  return device;
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
cudaError_t launch_row_sums(const StatisticsParameters& p, const Device& device, cudaStream_t stream) {
  // Rows of blocks differ in their keys: smaller blocks spread better.
  const int warps = std::min(4, warps_of<Dot>(p.head, false, device.shared_bytes));
  if (warps == 0) return cudaErrorInvalidValue;
  const int bytes = bytes_of<Dot>(p.head, warps, false);
  auto* kernel = row_sums<Dot, Kind>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) return e;
  const int rows = p.row_end - p.row_begin;
  const int block_rows = warps * kWarpRows;
  kernel<<<static_cast<unsigned>((rows + block_rows - 1) / block_rows), static_cast<unsigned>(block_rows),
           static_cast<std::size_t>(bytes), stream>>>(p);
  return cudaGetLastError();
}

template <class Dot>
cudaError_t launch_spread(StatisticsParameters p, const Device& device, cudaStream_t stream) {
  const int warps = warps_of<Dot>(p.head, true, device.shared_bytes);
  if (warps == 0) return cudaErrorInvalidValue;
  const int bytes = bytes_of<Dot>(p.head, warps, true);
  auto* kernel = spread<Dot>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) return e;
  const std::int64_t tiles = (p.length + kTileKeys - 1) / kTileKeys;
  const int block_rows = warps * kWarpRows;
  p.tiles_per_item = static_cast<int>(std::clamp<std::int64_t>(tiles * tiles / (64 * device.multiprocessors), 2, 32));
  const dim3 grid(static_cast<unsigned>((tiles + p.tiles_per_item - 1) / p.tiles_per_item),
                  static_cast<unsigned>((p.length + block_rows - 1) / block_rows));
  kernel<<<grid, static_cast<unsigned>(block_rows), static_cast<std::size_t>(bytes), stream>>>(p);
  return cudaGetLastError();
}

bool fixed_64(const HeadParameters& head) {
  return head.query != nullptr && !head.float32 && head.aligned && head.head_dim == 64;
}

/// Where the parts of the workspace lie, in bytes; what begins as 0 comes first.
struct StatisticsPlan {
  std::int64_t totals = 0, mass = 64, beside = 0, weight = 0, bytes = 0;
  explicit StatisticsPlan(std::int64_t length) {
    beside = mass + 2 * length * 8;
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

Status status_of(cudaError_t error) {
  if (error == cudaErrorInvalidValue) return Status::invalid_argument;
  return error == cudaSuccess ? Status::ok : Status::failed;
}

cudaError_t measure(const AttentionStatistics& a, cudaStream_t stream) {
  StatisticsParameters p = parameters(a.head);
  const StatisticsPlan plan(a.head.length);
  auto* memory = static_cast<char*>(a.workspace);
  p.totals = reinterpret_cast<Totals*>(memory + plan.totals);
  p.mass = reinterpret_cast<Fixed*>(memory + plan.mass);
  p.beside = reinterpret_cast<double*>(memory + plan.beside);
  p.weight = reinterpret_cast<float*>(memory + plan.weight);
  // At most one a row, so that sums have room for all rows.
  p.mass_scale = std::exp2(62 - std::ceil(std::log2(static_cast<double>(p.length) + 1)));
  if (const auto e = cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.beside), stream)) return e;
  const Device device = current();
  const auto blocks = static_cast<unsigned>((p.length + kThreads - 1) / kThreads);
  weigh_first<<<blocks, kThreads, 0, stream>>>(p);
  if (const auto e = cudaGetLastError()) return e;
  const bool fixed_dot = fixed_64(p.head);
  const auto sums = fixed_dot ? launch_row_sums<FixedDot<64>, RowSum::beside_first>(p, device, stream)
                              : launch_row_sums<AnyDot, RowSum::beside_first>(p, device, stream);
  if (sums != cudaSuccess) return sums;
  weigh_rows<<<blocks, kThreads, 0, stream>>>(p);
  if (const auto e = cudaGetLastError()) return e;
  const auto pass =
      fixed_dot ? launch_spread<FixedDot<64>>(p, device, stream) : launch_spread<AnyDot>(p, device, stream);
  if (pass != cudaSuccess) return pass;
  finish<<<blocks, kThreads, 0, stream>>>(p, a.sums, a.mass, a.mass_without_first);
  return cudaGetLastError();
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
  using maps::RowSum;
  const auto error = maps::fixed_64(p.head)
                         ? maps::launch_row_sums<maps::FixedDot<64>, RowSum::log_normalizer>(p, maps::current(), stream)
                         : maps::launch_row_sums<maps::AnyDot, RowSum::log_normalizer>(p, maps::current(), stream);
  return maps::status_of(error);
}

std::size_t attention_statistics_workspace_bytes(std::int64_t length) {
  return static_cast<std::size_t>(maps::StatisticsPlan(length).bytes);
}

Status attention_statistics(const AttentionStatistics& statistics, Stream stream) {
  const bool outputs = statistics.sums != nullptr && statistics.mass != nullptr &&
                       statistics.mass_without_first != nullptr && statistics.workspace != nullptr;
  if (!maps::head_valid(statistics.head) || !outputs) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  return maps::status_of(maps::measure(statistics, stream));
}

}  // namespace foxscope::kernels::cuda
