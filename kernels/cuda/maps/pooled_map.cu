// Checks, tables, edges and last touches; the kernel is in map_pooling.cuh.
#include <cuda_bf16.h>

#include <algorithm>
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/map_pooling.cuh"
#include "kernels/cuda/maps/pooled_map.h"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace maps {

std::int64_t tile_count(std::int64_t length) { return (length + kTileKeys - 1) / kTileKeys; }

constexpr unsigned kThreads = 256;

/// Where the tables of a head lie, in bytes.
struct Tables {
  std::int64_t terms = 0, key_norm = 0, row_norm = 0, bytes = 0;
  explicit Tables(std::int64_t length) {
    key_norm = length * 8;
    row_norm = key_norm + tile_count(length) * 4;
    bytes = row_norm + length * 4;
  }
};

bool head_valid(const MapHead& head) {
  if (head.length < 1 || head.length > std::numeric_limits<int>::max() / 4 || head.window < 0) return false;
  if ((head.query == nullptr) != (head.key == nullptr)) return false;
  if (head.query != nullptr && (head.head_dim < 1 || head.head_dim > 256 || !(head.scale > 0))) return false;
  return head.cumulative_log_gate == nullptr || head.tables != nullptr;
}

bool alike(const MapHead& a, const MapHead& b) {
  return (a.query == nullptr) == (b.query == nullptr) && a.element == b.element && a.length == b.length &&
         a.head_dim == b.head_dim && a.scale == b.scale && a.window == b.window &&
         (a.cumulative_log_gate == nullptr) == (b.cumulative_log_gate == nullptr);
}

HeadParameters head_parameters(const MapHead& head, bool logit) {
  HeadParameters h;
  h.query = head.query;
  h.key = head.key;
  h.float32 = head.element == ElementType::float32;
  if (head.query != nullptr) {
    h.head_dim = static_cast<int>(head.head_dim);
    h.depth = (h.head_dim + 15) / 16 * 16;
    const auto address = reinterpret_cast<std::uintptr_t>(head.query) | reinterpret_cast<std::uintptr_t>(head.key);
    h.aligned = address % 16 == 0 && h.head_dim * (h.float32 ? 4 : 2) % 16 == 0;
  }
  h.scale = logit ? head.scale : static_cast<float>(static_cast<double>(head.scale) * kLog2E);
  h.gate = logit ? nullptr : head.cumulative_log_gate;
  h.lse = logit ? nullptr : head.log_normalizer;
  if (h.gate != nullptr) {
    const Tables tables(head.length);
    const auto* memory = static_cast<const char*>(head.tables);
    h.terms = reinterpret_cast<const float2*>(memory + tables.terms);
    h.key_norm = reinterpret_cast<const float*>(memory + tables.key_norm);
    h.row_norm = reinterpret_cast<const float*>(memory + tables.row_norm);
  }
  return h;
}

namespace {

__device__ float square(const HeadParameters& head, const void* rows, std::int64_t row) {
  float sum = 0;
  for (int n = 0; n < head.head_dim; ++n) {
    const float x = head.float32 ? static_cast<const float*>(rows)[row * head.head_dim + n]
                                 : __bfloat162float(static_cast<const __nv_bfloat16*>(rows)[row * head.head_dim + n]);
    sum = fmaf(x, x, sum);
  }
  return sum;
}

/// One block a tile, one thread a key: the gate relative to the tile's first key, in units of log2, and norms.
__global__ void prepare_keys(const __grid_constant__ HeadParameters head, int length, float2* terms, float* key_norm,
                             float* row_norm) {
  __shared__ float largest[kTileKeys / 32];
  const int first = static_cast<int>(blockIdx.x) * kTileKeys;
  const int key = first + static_cast<int>(threadIdx.x);
  float norm = 0;
  if (key < length) {
    if (head.gate != nullptr) {
      const double c = head.gate[first];
      const double term = (c - head.gate[key]) * kLog2E;
      const bool far = spreads(c, head.gate[min(first + kTileKeys, length) - 1]);
      const Split parts = far ? split(term) : Split{static_cast<float>(term), 0.0F};
      terms[key] = {parts.high, parts.low};
    }
    if (head.query != nullptr) {
      norm = sqrtf(square(head, head.key, key));
      row_norm[key] = sqrtf(square(head, head.query, key));
    } else {
      row_norm[key] = 0;
    }
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) norm = maximum(norm, __shfl_xor_sync(0xffffffffU, norm, lanes));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = norm;
  __syncthreads();
  if (threadIdx.x == 0) key_norm[blockIdx.x] = maximum(largest[0], largest[1]);
}

/// bin[n] of position n of `size` in `bins`, and edge[n] where bin n begins, from `begin` on.
__global__ void plan_bins(std::int64_t begin, std::int64_t size, std::int64_t bins, int* bin, int* edge) {
  const std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n < size) bin[n] = static_cast<int>(((n + 1) * bins - 1) / size);
  if (n <= bins) edge[n] = static_cast<int>(begin + n * size / bins);
}

/// bin[n] of distance begin + n among edges.
__global__ void plan_distances(int begin, int size, const int* edge, int bins, int* bin) {
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (n >= size) return;
  int low = 0;
  int high = bins;  // edge[low] <= begin + n < edge[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (edge[middle] <= begin + n) {
      low = middle;
    } else {
      high = middle;
    }
  }
  bin[n] = low;
}

/// Pairs of rows x columns with column <= row - lag.
__device__ std::int64_t pairs_below(int row_begin, int row_end, int column_begin, int column_end, int lag) {
  const std::int64_t width = column_end - column_begin;
  const std::int64_t begin = min(max(std::int64_t{column_begin} + lag, std::int64_t{row_begin}), std::int64_t{row_end});
  const std::int64_t end =
      min(max(std::int64_t{column_begin} + lag + width, std::int64_t{row_begin}), std::int64_t{row_end});
  const std::int64_t ramp = end - begin;
  return ramp * (begin - lag + 1 - column_begin) + ramp * (ramp - 1) / 2 + (row_end - end) * width;
}

/// Makes pixels of the sums.
__global__ void fill_pixels(const __grid_constant__ PoolParameters p, std::int64_t pixels, float* out) {
  const std::int64_t n = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= pixels) return;
  const auto row = static_cast<int>(n / p.pixel_columns);
  const auto column = static_cast<int>(n % p.pixel_columns);
  const int r0 = p.row_edge[row];
  const int r1 = p.row_edge[row + 1];
  int c0 = p.column_edge[column];
  int c1 = p.column_edge[column + 1];
  if (p.by_distance) {
    // Columns of i - j, of which row i has i + 1.
    c0 = p.window > 0 ? min(c0 - 1, p.window) : c0 - 1;
    c1 = p.window > 0 ? min(c1 - 1, p.window) : c1 - 1;
  }
  // Absent keys are those of the first column, or a diagonal of the distances.
  const bool cut = p.key_begin > p.column_begin;
  if (cut && !p.by_distance) c0 = min(max(c0, p.key_begin), c1);
  std::int64_t count = pairs_below(r0, r1, c0, c1, 0);
  if (p.window > 0 && !p.by_distance) count -= pairs_below(r0, r1, c0, c1, p.window);
  if (cut && p.by_distance) count -= max(0, min(r1, c1) - max(r0, c0));
  if (count == 0) {
    out[n] = nanf("");
  } else if (p.reduction == MapReduction::mean) {
    out[n] = static_cast<float>(sum_of(p, n) / static_cast<double>(count));
  } else {
    const unsigned code = p.extreme[n];
    // A pixel whose tiles were all left out has entries of 0.
    const float value = code == 0 ? (p.logarithm ? -INFINITY : 0.0F) : decode(code, p.reduction);
    out[n] = p.logarithm ? exp2_fast(value) : value;
  }
}

/// Where the parts of the workspace lie, in bytes.
struct Workspace {
  std::int64_t extreme = 0, sum = 0, row_bin = 0, column_bin = 0, row_edge = 0, column_edge = 0, bytes = 0;
  explicit Workspace(const PooledMap& map) {
    const auto take = [&](std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += (size + 15) / 16 * 16;
      return at;
    };
    const std::int64_t pixels = map.pixel_rows * map.pixel_columns;
    extreme = take(pixels * 4);
    sum = take(map.reduction == MapReduction::mean ? pixels * static_cast<std::int64_t>(sizeof(PixelSum)) : 0);
    row_bin = take((map.row_end - map.row_begin) * 4);
    column_bin = take((map.column_end - map.column_begin) * 4);
    row_edge = take((map.pixel_rows + 1) * 4);
    column_edge = take((map.pixel_columns + 1) * 4);
  }
};

}  // namespace

bool sizes_valid(const PooledMap& map) {
  const std::int64_t length = map.head.length;
  if (map.first_key != 0 && map.first_key != 1) return false;
  const bool rows = map.row_begin >= 0 && map.row_begin < map.row_end && map.row_end <= length;
  const bool pixel_rows = map.pixel_rows >= 1 && map.pixel_rows <= map.row_end - map.row_begin;
  if (map.distance_edges != nullptr) {
    // Keys that some row has at one of the distances.
    const bool distances = map.column_begin >= 1 && map.column_begin < map.column_end && map.column_end <= length + 1;
    return rows && distances && pixel_rows && map.pixel_columns >= 1 && map.column_begin <= map.row_end &&
           map.distance_edges[0] == map.column_begin && map.distance_edges[map.pixel_columns] == map.column_end;
  }
  const bool columns = map.column_begin >= 0 && map.column_begin < map.column_end && map.column_end <= length;
  return rows && columns && pixel_rows && map.pixel_columns >= 1 &&
         map.pixel_columns <= map.column_end - map.column_begin;
}

namespace {

bool valid(const PooledMap& map) {
  if (!head_valid(map.head) || !sizes_valid(map) || map.pixels == nullptr || map.workspace == nullptr) return false;
  if (map.value == MapValue::logit && map.head.query == nullptr) return false;
  if (map.minus == nullptr) return true;
  return head_valid(*map.minus) && map.minus->length == map.head.length &&
         (map.value != MapValue::logit || map.minus->query != nullptr);
}

int narrower(std::int64_t a, std::int64_t b, std::int64_t length) {
  const std::int64_t window = a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
  return static_cast<int>(window >= length ? 0 : window);
}

PoolParameters parameters(const PooledMap& map) {
  PoolParameters p;
  const bool logit = map.value == MapValue::logit;
  p.head[0] = head_parameters(map.head, logit);
  if (map.minus != nullptr) {
    p.head[1] = head_parameters(*map.minus, logit);
    p.heads = 2;
  }
  p.length = static_cast<int>(map.head.length);
  p.window = narrower(map.head.window, map.minus == nullptr ? 0 : map.minus->window, map.head.length);
  p.value = map.value;
  p.reduction = map.reduction;
  const bool mean = map.reduction == MapReduction::mean;
  p.logarithm = map.value == MapValue::attention && map.minus == nullptr && !mean;
  // Attention has no negative entries.
  if (p.logarithm && p.reduction == MapReduction::absmax) p.reduction = MapReduction::max;
  p.limit = map.skip_below;
  // A row's attention, or the size of a difference of two rows', sums to 2 at most; logits may be 2^16 on average over
  // 2^31 entries.
  p.sum_scale = logit ? 0x1p16 : 0x1p40;
  // Tiles are left out only where entries of 0 change no pixel.
  const bool skips = map.value == MapValue::attention &&
                     (p.logarithm ? p.reduction == MapReduction::max : mean || p.reduction == MapReduction::absmax);
  if (!skips) p.head[0].key_norm = p.head[1].key_norm = nullptr;
  return p;
}

unsigned blocks_of(std::int64_t count, unsigned threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

Status pool(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream) {
  if (p.heads == 2) return pool_difference(p, tiles, shared_bytes, stream);
  const HeadParameters& head = p.head[0];
  const bool fixed = head.query != nullptr && !head.float32 && head.aligned;
  if (fixed && head.head_dim == 64) return pool_64(p, tiles, shared_bytes, stream);
  if (fixed && head.head_dim == 128) return pool_128(p, tiles, shared_bytes, stream);
  return pool_any(p, tiles, shared_bytes, stream);
}

Status run(const PooledMap& map, cudaStream_t stream, int multiprocessors, int shared_bytes) {
  PoolParameters p = parameters(map);
  if (const Status status = begin_pixels(map, p, stream); status != Status::ok) return status;
  // Keys that no row sees are left alone.
  const std::int64_t oldest = p.window == 0 ? 0 : std::max<std::int64_t>(0, map.row_begin - p.window + 1);
  const std::int64_t rows = map.row_end - map.row_begin;
  const std::int64_t first_key = std::max<std::int64_t>(p.key_begin, oldest);
  const std::int64_t last_key = std::min<std::int64_t>(p.column_end, map.row_end);
  if (first_key < last_key) {
    p.first_tile = static_cast<int>(first_key / kTileKeys);
    const auto tiles = static_cast<int>(tile_count(last_key) - p.first_tile);
    const std::int64_t work = tiles * tile_count(rows) / 4;
    p.tiles_per_item = static_cast<int>(std::clamp<std::int64_t>(work / (16 * multiprocessors), 2, 32));
    if (const Status status = pool(p, tiles, shared_bytes, stream); status != Status::ok) return status;
  }
  return finish_pixels(map, p, stream);
}

}  // namespace

Status begin_pixels(const PooledMap& map, PoolParameters& p, cudaStream_t stream) {
  const Workspace plan(map);
  char* memory = static_cast<char*>(map.workspace);
  p.row_begin = static_cast<int>(map.row_begin);
  p.row_end = static_cast<int>(map.row_end);
  p.column_begin = static_cast<int>(map.column_begin);
  p.column_end = static_cast<int>(map.column_end);
  p.pixel_columns = static_cast<int>(map.pixel_columns);
  p.staged = map.column_end - map.column_begin < kStepKeys * map.pixel_columns;
  if (map.distance_edges != nullptr) {
    p.by_distance = p.staged = true;
    p.distance_begin = p.column_begin;
    p.distance_end = p.column_end;
    // The keys at these distances: i - j in [begin - 1, end - 1).
    p.column_begin = std::max(0, p.row_begin - p.distance_end + 2);
    p.column_end = p.row_end - p.distance_begin + 1;
    p.window = narrower(p.window, p.distance_end - 1, map.head.length);
  }
  p.key_begin = std::max(p.column_begin, static_cast<int>(map.first_key));
  p.row_bin = reinterpret_cast<int*>(memory + plan.row_bin);
  p.column_bin = reinterpret_cast<int*>(memory + plan.column_bin);
  p.row_edge = reinterpret_cast<int*>(memory + plan.row_edge);
  p.column_edge = reinterpret_cast<int*>(memory + plan.column_edge);
  p.extreme = reinterpret_cast<unsigned*>(memory + plan.extreme);
  p.sum = reinterpret_cast<PixelSum*>(memory + plan.sum);
  if (!succeeded(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.row_bin), stream))) return Status::failed;
  const std::int64_t rows = map.row_end - map.row_begin;
  const std::int64_t columns = map.column_end - map.column_begin;
  plan_bins<<<blocks_of(rows + 1, kThreads), kThreads, 0, stream>>>(
      map.row_begin, rows, map.pixel_rows, const_cast<int*>(p.row_bin), const_cast<int*>(p.row_edge));
  if (!p.by_distance) {
    plan_bins<<<blocks_of(columns + 1, kThreads), kThreads, 0, stream>>>(
        map.column_begin, columns, map.pixel_columns, const_cast<int*>(p.column_bin), const_cast<int*>(p.column_edge));
    return launched();
  }
  const auto edges = static_cast<std::size_t>(map.pixel_columns + 1) * sizeof(int);
  if (!succeeded(
          cudaMemcpyAsync(memory + plan.column_edge, map.distance_edges, edges, cudaMemcpyHostToDevice, stream))) {
    return Status::failed;
  }
  plan_distances<<<blocks_of(columns, kThreads), kThreads, 0, stream>>>(
      p.distance_begin, static_cast<int>(columns), p.column_edge, static_cast<int>(map.pixel_columns),
      const_cast<int*>(p.column_bin));
  return launched();
}

Status finish_pixels(const PooledMap& map, const PoolParameters& p, cudaStream_t stream) {
  const std::int64_t pixels = map.pixel_rows * map.pixel_columns;
  fill_pixels<<<blocks_of(pixels, kThreads), kThreads, 0, stream>>>(p, pixels, map.pixels);
  return launched();
}

}  // namespace maps

std::size_t head_table_bytes(std::int64_t length) { return static_cast<std::size_t>(maps::Tables(length).bytes); }

Status prepare_map_head(const MapHead& head, void* tables, Stream stream) {
  MapHead whole = head;
  whole.tables = tables;
  if (tables == nullptr || !maps::head_valid(whole)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const maps::Tables plan(head.length);
  auto* memory = static_cast<char*>(tables);
  maps::prepare_keys<<<static_cast<unsigned>(maps::tile_count(head.length)), maps::kTileKeys, 0, stream>>>(
      maps::head_parameters(whole, false), static_cast<int>(head.length),
      reinterpret_cast<float2*>(memory + plan.terms), reinterpret_cast<float*>(memory + plan.key_norm),
      reinterpret_cast<float*>(memory + plan.row_norm));
  return launched();
}

std::size_t pooled_map_workspace_bytes(const PooledMap& map) {
  return maps::sizes_valid(map) ? static_cast<std::size_t>(maps::Workspace(map).bytes) : 0;
}

Status pooled_map(const PooledMap& map, Stream stream) {
  if (!maps::valid(map)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  int device = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;
  const bool known = succeeded(cudaGetDevice(&device)) &&
                     succeeded(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) &&
                     succeeded(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return known ? maps::run(map, stream, multiprocessors, shared_bytes) : Status::failed;
}

}  // namespace foxscope::kernels::cuda
