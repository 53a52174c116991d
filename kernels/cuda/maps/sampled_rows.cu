#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/entry_strips.cuh"
#include "kernels/cuda/maps/map_pooling.cuh"
#include "kernels/cuda/maps/sampled_rows.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

constexpr double kNats = 0.6931471805599453;  // of a unit of log2
constexpr int kStripRows = 64;
constexpr int kStripThreads = 64;
constexpr int kStripTiles = 8;  // of keys that a block goes over
constexpr int kRowThreads = 256;

struct SampledHead {
  const void* query = nullptr;
  const void* key = nullptr;
  const double* gate = nullptr;
  const float* lse = nullptr;
};

struct SampledParameters {
  HeadParameters head;  ///< its arrays are those of `heads`
  int length = 0;
  int window = 0;
  int rows = 0;
  const std::int32_t* token = nullptr;
  const std::int32_t* positions = nullptr;
  const double* stands_for = nullptr;
  float* logarithm = nullptr;  ///< [count, rows, L]
  SampledRow* numbers = nullptr;
  double* mass = nullptr;
  double* half = nullptr;
  double* received = nullptr;
  SampledHead heads[SampledRows::kMostHeads];
};

/// Copies sampled queries, zeros after the last, by all threads.
__device__ void load_sampled(const SampledParameters& p, const void* query, int first, char* to) {
  const int stride = tile_stride(p.head.depth, p.head.float32);
  for (int n = static_cast<int>(threadIdx.x); n < kStripRows * p.head.depth; n += static_cast<int>(blockDim.x)) {
    const int row = n / p.head.depth;
    const int column = n % p.head.depth;
    const bool inside = first + row < p.rows && column < p.head.head_dim;
    const std::int64_t at = inside ? std::int64_t{p.positions[first + row]} * p.head.head_dim + column : 0;
    if (p.head.float32) {
      *reinterpret_cast<float*>(to + row * stride + column * 4) = inside ? static_cast<const float*>(query)[at] : 0.0F;
    } else {
      *reinterpret_cast<std::uint16_t*>(to + row * stride + column * 2) =
          inside ? static_cast<const std::uint16_t*>(query)[at] : std::uint16_t{0};
    }
  }
}

/// log2 of the entries of 64 sampled rows and some tiles of keys; absent ones -infinity.
__global__ void __launch_bounds__(kStripThreads) sampled_entries(const __grid_constant__ SampledParameters p) {
  extern __shared__ __align__(16) char memory[];
  HeadParameters head = p.head;
  const SampledHead& arrays = p.heads[blockIdx.z];
  head.query = arrays.query;
  head.key = arrays.key;
  const int first_row = static_cast<int>(blockIdx.y) * kStripRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  char* const keys = memory + kStripRows * tile_stride(head.depth, head.float32);
  load_sampled(p, head.query, first_row, memory);
  AnyDot dot;
  dot.start(head, memory, 0, 0);
  int position[4];
  double term[4];
  float* out[4];
#pragma unroll
  for (int line = 0; line < 4; ++line) {
    const int row = first_row + warp * kWarpRows + lane / 4 + 8 * line;
    position[line] = row < p.rows ? p.positions[row] : -1;
    const int at = max(position[line], 0);
    term[line] = arrays.gate == nullptr ? 0.0 : arrays.gate[at];
    if (arrays.lse != nullptr) term[line] -= static_cast<double>(arrays.lse[at]);
    out[line] = p.logarithm + (std::int64_t{blockIdx.z} * p.rows + row) * p.length;
  }
  const int tiles = (p.length + kTileKeys - 1) / kTileKeys;
  const int begin = static_cast<int>(blockIdx.x) * kStripTiles;
  for (int tile = begin; tile < min(begin + kStripTiles, tiles); ++tile) {
    __syncthreads();
    load_rows(head, head.key, tile * kTileKeys, kTileKeys, p.length, keys);
    commit();
    wait<0>();
    __syncthreads();
    for (int first = 0; first < kTileKeys; first += kStepKeys) {
      Step s;
      dot.step(head, keys, first, s);
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int line = n / 8 * 2 + n % 4 / 2;
        const int key = tile * kTileKeys + first + n / 4 % 2 * 8 + lane % 4 * 2 + n % 2;
        if (position[line] < 0 || key >= p.length) continue;
        const int distance = position[line] - key;
        const double fall = arrays.gate == nullptr ? term[line] : term[line] - arrays.gate[key];
        const double x =
            fma(static_cast<double>(s[n / 8][n / 4 % 2][n % 4]), static_cast<double>(head.scale), fall * kLog2E);
        const bool absent = distance < 0 || (p.window > 0 && distance >= p.window);
        out[line][key] = absent ? -INFINITY : static_cast<float>(x);
      }
    }
  }
}

/// The sum over a block's threads, in all of them.
__device__ double block_sum(double value) {
  __shared__ double part[kRowThreads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  for (const double of_warp : part) sum += of_warp;
  return sum;
}

__device__ double weight_of(const SampledRow& row, int position) {
  return position > 0 && !(row.beside <= 0) ? 1.0 / row.beside : 0.0;  // NaN counts
}

/// One block a row: its numbers but for `toward`.
__global__ void __launch_bounds__(kRowThreads) measure_rows(const __grid_constant__ SampledParameters p) {
  const auto row = static_cast<int>(blockIdx.x);
  const int position = p.positions[row];
  const double* const gate = p.heads[blockIdx.y].gate;
  const std::int64_t at = std::int64_t{blockIdx.y} * p.rows + row;
  const float* const logarithm = p.logarithm + at * p.length;
  double entropy = 0;
  double decay = 0;
  double square = 0;
  double repeats = 0;
  double beside = 0;
  SampledRow& numbers = p.numbers[at];
  const int bins = 32 - __clz(p.length - 1) + 1;
  for (int bin = 0; bin < bins; ++bin) {
    const int from = bin == 0 ? 0 : 1 << (bin - 1);
    const int to = min(bin == 0 ? 1 : from * 2, position + 1);
    double mass = 0;
    double others = 0;
    for (int distance = from + static_cast<int>(threadIdx.x); distance < to; distance += kRowThreads) {
      const int key = position - distance;
      const float x = logarithm[key];
      const float entry = exp2_fast(x);
      const auto exact = static_cast<double>(entry);
      mass += exact;
      if (entry != 0) entropy -= exact * static_cast<double>(x);
      if (gate != nullptr && entry != 0) decay += exact * (gate[position] - gate[key]);
      if (key == 0) continue;
      others += exact;
      square += exact * exact;
      if (p.token != nullptr && distance > 0 && p.token[key - 1] == p.token[position]) repeats += exact;
    }
    mass = block_sum(mass);
    others = block_sum(others);
    beside += others;
    if (threadIdx.x == 0) {
      numbers.mass[bin] = mass;
      numbers.others[bin] = others;
    }
  }
  entropy = block_sum(entropy);
  decay = block_sum(decay);
  square = block_sum(square);
  repeats = block_sum(repeats);
  if (threadIdx.x != 0) return;
  numbers.entropy = entropy * kNats;
  numbers.log_decay = decay;
  numbers.beside = beside;
  numbers.square = square;
  numbers.on_repeats = repeats;
  numbers.on_first = static_cast<double>(exp2_fast(logarithm[0]));
  numbers.on_self = static_cast<double>(exp2_fast(logarithm[position]));
}

/// One thread a distance: sums over rows.
__global__ void __launch_bounds__(kRowThreads) measure_distances(const __grid_constant__ SampledParameters p) {
  const auto distance = static_cast<int>(blockIdx.x * kRowThreads + threadIdx.x);
  if (distance >= p.length) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * p.rows;
  double mass = 0;
  double half[2] = {};
  for (int row = 0; row < p.rows; ++row) {
    const int position = p.positions[row];
    if (distance > position) continue;
    const auto entry = static_cast<double>(exp2_fast(p.logarithm[(first + row) * p.length + position - distance]));
    mass += p.stands_for[row] / 2 * entry;
    if (distance == position) continue;
    const double weighted = p.stands_for[row] * weight_of(p.numbers[first + row], position) * entry;
    (row % 2 == 0 ? half[0] : half[1]) += weighted;
  }
  p.mass[std::int64_t{blockIdx.y} * p.length + distance] = mass;
  for (int n = 0; n < 2; ++n) p.half[(std::int64_t{blockIdx.y} * 2 + n) * p.length + distance] = half[n];
}

/// One thread a key: sums over rows.
__global__ void __launch_bounds__(kRowThreads) measure_received(const __grid_constant__ SampledParameters p) {
  const auto key = static_cast<int>(blockIdx.x * kRowThreads + threadIdx.x);
  if (key >= p.length) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * p.rows;
  double received = 0;
  for (int row = 0; row < p.rows; ++row) {
    if (key > p.positions[row]) continue;
    received += p.stands_for[row] / 2 * static_cast<double>(exp2_fast(p.logarithm[(first + row) * p.length + key]));
  }
  p.received[std::int64_t{blockIdx.y} * p.length + key] = received;
}

/// One block a row: what it has in the direction of the sums.
__global__ void __launch_bounds__(kRowThreads) measure_toward(const __grid_constant__ SampledParameters p) {
  const auto row = static_cast<int>(blockIdx.x);
  const int position = p.positions[row];
  const std::int64_t at = std::int64_t{blockIdx.y} * p.rows + row;
  const float* const logarithm = p.logarithm + at * p.length;
  const double* const half = p.half + std::int64_t{blockIdx.y} * 2 * p.length;
  const int reach = min(position, p.window > 0 ? min(p.window, p.length - 1) : p.length - 1);
  double toward[2] = {};
  for (int distance = static_cast<int>(threadIdx.x); distance < reach; distance += kRowThreads) {
    const double part = static_cast<double>(exp2_fast(logarithm[position - distance])) / (p.length - 1 - distance);
    for (int n = 0; n < 2; ++n) toward[n] += part * half[n * std::int64_t{p.length} + distance];
  }
  for (double& value : toward) value = block_sum(value);
  if (threadIdx.x != 0) return;
  SampledRow& numbers = p.numbers[at];
  for (int n = 0; n < 2; ++n) numbers.toward[n] = weight_of(numbers, position) * toward[n];
}

/// Where the parts of a linear mixer's workspace lie, in bytes, behind the logarithms.
struct MixingRowsPlan {
  std::int64_t slot = 0, strip = 0, bytes = 0;
  MixingRowsPlan(std::int64_t length, std::int64_t rows, std::int64_t count, bool mixing) {
    slot = (length * rows * count * 4 + 255) / 256 * 256;
    strip = slot + (length * 4 + 255) / 256 * 256;
    bytes = mixing ? strip + StripExtent(0, rows).row_blocks * StripExtent(0, length).tiles * kBlockNumbers * 4
                   : length * rows * count * 4;
  }
};

__global__ void fill_slots(const int* positions, int rows, int* slot) {
  const auto row = static_cast<int>(blockIdx.x * kRowThreads + threadIdx.x);
  if (row < rows) slot[positions[row]] = row;
}

/// One block a row: log2 of the shares that entries have of it. A row of zeros has shares of 0.
__global__ void __launch_bounds__(kRowThreads)
    share_logarithms(const __grid_constant__ SampledParameters p, const __grid_constant__ EntryStrip strip, int head) {
  const auto row = static_cast<int>(blockIdx.x);
  const int position = p.positions[row];
  float* const to = p.logarithm + (std::int64_t{head} * p.rows + row) * p.length;
  double sum = 0;
  for (int key = static_cast<int>(threadIdx.x); key <= position; key += kRowThreads) {
    sum += static_cast<double>(fabsf(strip.at(row, key)));
  }
  sum = block_sum(sum);
  const float share = sum == 0 ? 0.0F : static_cast<float>(1.0 / sum);
  for (int key = static_cast<int>(threadIdx.x); key < p.length; key += kRowThreads) {
    to[key] = key <= position ? log2f(fabsf(strip.at(row, key)) * share) : -INFINITY;
  }
}

/// The rows of linear mixers, one head after the other.
Status write_mixing_rows(const SampledRows& rows, const SampledParameters& p, cudaStream_t stream) {
  const MixingRowsPlan plan(p.length, p.rows, rows.count, true);
  auto* const memory = static_cast<char*>(rows.workspace);
  auto* const slot = reinterpret_cast<int*>(memory + plan.slot);
  const auto slots = static_cast<std::size_t>(p.length) * sizeof(int);
  if (!succeeded(cudaMemsetAsync(slot, 0xff, slots, stream))) return Status::failed;
  fill_slots<<<static_cast<unsigned>((p.rows + kRowThreads - 1) / kRowThreads), kRowThreads, 0, stream>>>(p.positions,
                                                                                                          p.rows, slot);
  if (const Status status = launched(); status != Status::ok) return status;
  MixingStrip strip;
  strip.row_end = p.length;
  strip.entries = reinterpret_cast<float*>(memory + plan.strip);
  strip.slot = slot;
  strip.slots = p.rows;
  EntryStrip written;  // whose row n is in slot n
  written.entries = strip.entries;
  written.tiles = static_cast<int>(StripExtent(0, p.length).tiles);
  for (int n = 0; n < rows.count; ++n) {
    strip.head = rows.mixers[n].head;
    strip.tables = rows.mixers[n].tables;
    if (const Status status = mixing_strip(strip, stream); status != Status::ok) return status;
    share_logarithms<<<static_cast<unsigned>(p.rows), kRowThreads, 0, stream>>>(p, written, n);
    if (const Status status = launched(); status != Status::ok) return status;
  }
  return Status::ok;
}

/// The rows of heads of softmax, all at once.
Status write_softmax_rows(const SampledRows& rows, const SampledParameters& p, cudaStream_t stream) {
  const int bytes = (kStripRows + kTileKeys) * tile_stride(p.head.depth, p.head.float32);
  int device = 0;
  int most = 0;
  if (!succeeded(cudaGetDevice(&device)) ||
      !succeeded(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device))) {
    return Status::failed;
  }
  if (bytes > most) return Status::unsupported;
  if (!succeeded(cudaFuncSetAttribute(sampled_entries, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const int tiles = (p.length + kTileKeys - 1) / kTileKeys;
  const dim3 grid(static_cast<unsigned>((tiles + kStripTiles - 1) / kStripTiles),
                  static_cast<unsigned>((rows.rows + kStripRows - 1) / kStripRows), static_cast<unsigned>(rows.count));
  if (grid.y > kMostGridRows) return Status::unsupported;
  sampled_entries<<<grid, kStripThreads, static_cast<std::size_t>(bytes), stream>>>(p);
  return launched();
}

Status measure(const SampledRows& rows, cudaStream_t stream) {
  SampledParameters p;
  p.head = head_parameters(rows.heads[0], false);
  p.length = static_cast<int>(rows.heads[0].length);
  p.window = static_cast<int>(rows.heads[0].window < rows.heads[0].length ? rows.heads[0].window : 0);
  p.rows = rows.rows;
  p.token = rows.token;
  p.positions = rows.positions;
  p.stands_for = rows.stands_for;
  p.logarithm = static_cast<float*>(rows.workspace);
  p.numbers = rows.numbers;
  p.mass = rows.mass;
  p.half = rows.half;
  p.received = rows.received;
  for (int n = 0; n < rows.count; ++n) {
    const HeadParameters head = head_parameters(rows.heads[n], false);
    p.heads[n] = {head.query, head.key, head.gate, head.lse};
    p.head.aligned = p.head.aligned && head.aligned;
  }
  const auto count = static_cast<unsigned>(rows.count);
  const auto row_count = static_cast<unsigned>(rows.rows);
  if (!succeeded(cudaMemsetAsync(rows.numbers, 0, sizeof(SampledRow) * count * row_count, stream))) {
    return Status::failed;
  }
  const Status written =
      rows.mixers == nullptr ? write_softmax_rows(rows, p, stream) : write_mixing_rows(rows, p, stream);
  if (written != Status::ok) return written;
  measure_rows<<<dim3(row_count, count), kRowThreads, 0, stream>>>(p);
  if (const Status status = launched(); status != Status::ok) return status;
  const auto blocks = static_cast<unsigned>((p.length + kRowThreads - 1) / kRowThreads);
  measure_distances<<<dim3(blocks, count), kRowThreads, 0, stream>>>(p);
  if (const Status status = launched(); status != Status::ok) return status;
  measure_toward<<<dim3(row_count, count), kRowThreads, 0, stream>>>(p);
  if (const Status status = launched(); status != Status::ok || p.received == nullptr) return status;
  measure_received<<<dim3(blocks, count), kRowThreads, 0, stream>>>(p);
  return launched();
}

}  // namespace
}  // namespace maps

std::size_t sampled_rows_workspace_bytes(std::int64_t length, int rows, int count, bool mixing) {
  return static_cast<std::size_t>(maps::MixingRowsPlan(length, rows, count, mixing).bytes);
}

Status sampled_rows(const SampledRows& rows, Stream stream) {
  const bool counted = rows.heads != nullptr && rows.count >= 1 && rows.count <= SampledRows::kMostHeads &&
                       rows.rows >= 2 && rows.rows % 2 == 0;
  const bool arrays = rows.positions != nullptr && rows.stands_for != nullptr && rows.numbers != nullptr &&
                      rows.mass != nullptr && rows.half != nullptr && rows.workspace != nullptr;
  if (!counted || !arrays) return Status::invalid_argument;
  for (int n = 0; n < rows.count; ++n) {
    MapHead without_gate = rows.heads[n];
    without_gate.cumulative_log_gate = nullptr;  // there are no tables to look for
    if (!maps::head_valid(without_gate) || !maps::alike(rows.heads[n], rows.heads[0])) return Status::invalid_argument;
    if (rows.mixers == nullptr ? rows.heads[n].query == nullptr : rows.mixers[n].tables == nullptr) {
      return Status::invalid_argument;
    }
  }
  if (!is_available()) return Status::unavailable;
  return maps::measure(rows, stream);
}

}  // namespace foxscope::kernels::cuda
