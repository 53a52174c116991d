// Checks and parameters of the maps of linear mixers; the kernels are in mixing_pooling.cuh and delta_pooling.cuh.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/delta_pooling.cuh"
#include "kernels/cuda/maps/map_device.cuh"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/mixing_pooling.cuh"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

/// The rectangle and pixels of a map, as FoX's maps have them.
PooledMap rectangle_of(const MixingMap& map) {
  PooledMap r;
  r.head.length = map.head.length;
  // Sizes are never negative.
  const bool sizes = map.value != MixingValue::mixing;
  r.reduction = sizes && map.reduction == MapReduction::absmax ? MapReduction::max : map.reduction;
  r.row_begin = map.row_begin;
  r.row_end = map.row_end;
  r.column_begin = map.column_begin;
  r.column_end = map.column_end;
  r.pixel_rows = map.pixel_rows;
  r.pixel_columns = map.pixel_columns;
  r.pixels = map.pixels;
  r.workspace = map.workspace;
  return r;
}

bool valid(const MixingMap& map) {
  if (!mixing_sizes_valid(map.head) || map.head.head_dim > kMostChannels || !sizes_valid(rectangle_of(map)))
    return false;
  if (map.tables == nullptr || map.pixels == nullptr || map.workspace == nullptr) return false;
  return map.value != MixingValue::share || map.row_sizes != nullptr;
}

MixingParameters parameters(const MixingMap& map, const MixingTables& plan) {
  MixingParameters m;
  const auto* memory = static_cast<const char*>(map.tables);
  m.query = reinterpret_cast<const __nv_bfloat16*>(memory + plan.query);
  m.key = reinterpret_cast<const __nv_bfloat16*>(memory + plan.key);
  m.left = reinterpret_cast<const __nv_bfloat16*>(memory + plan.left);
  m.start = reinterpret_cast<const float*>(memory + plan.start);
  m.diagonal = reinterpret_cast<const float*>(memory + plan.diagonal);
  m.factor = reinterpret_cast<const float*>(memory + plan.factor);
  m.gate = reinterpret_cast<const double*>(memory + plan.gate);
  m.query_norm = reinterpret_cast<const float*>(memory + plan.query_norm);
  m.key_norm = reinterpret_cast<const float*>(memory + plan.key_norm);
  m.part = plan.part;
  m.norms = static_cast<int>(plan.rows / kWarpRows);
  m.sizes = map.value != MixingValue::mixing;
  m.row_sizes = map.value == MixingValue::share ? map.row_sizes : nullptr;
  m.pool.length = static_cast<int>(map.head.length);
  m.pool.reduction = rectangle_of(map).reduction;
  // Shares of a row sum to 1; entries may be 2^16 on average over 2^31.
  m.pool.sum_scale = map.value == MixingValue::share ? 0x1p40 : 0x1p16;
  const MapReduction reduction = m.pool.reduction;
  m.skips = reduction == MapReduction::mean || reduction == MapReduction::absmax ||
            (m.sizes && reduction == MapReduction::max);
  m.limit = std::exp2(map.skip_below);
  return m;
}

Status mix(const MixingMap& map, MixingParameters& m, int multiprocessors, int shared_bytes, cudaStream_t stream) {
  const MixingTables plan(map.head);
  const std::int64_t last_key = std::min(map.column_end, map.row_end);
  m.pool.first_tile = static_cast<int>(map.column_begin / kTileKeys);
  if (map.head.kind == MixingKind::delta_rule) {
    switch (plan.depth) {
      case 64:
        return mix_delta_64(m, shared_bytes, stream);
      case 128:
        return mix_delta_128(m, shared_bytes, stream);
      default:
        return write_wide_delta(m, plan.depth, shared_bytes, stream);
    }
  }
  const auto tiles = static_cast<int>((last_key + kTileKeys - 1) / kTileKeys) - m.pool.first_tile;
  const std::int64_t work = tiles * ((map.row_end - map.row_begin + kTileKeys - 1) / kTileKeys) / 4;
  m.pool.tiles_per_item = static_cast<int>(std::clamp<std::int64_t>(work / (16 * multiprocessors), 2, kMostTiles));
  const auto kernel = plan.depth == 64 ? mix_64 : mix_128;
  return kernel(m, map.head.kind, plan.parts, tiles, shared_bytes, stream);
}

Status run(const MixingMap& map, int multiprocessors, int shared_bytes, cudaStream_t stream) {
  const PooledMap rectangle = rectangle_of(map);
  MixingParameters m = parameters(map, MixingTables(map.head));
  if (const Status status = begin_pixels(rectangle, m.pool, stream); status != Status::ok) return status;
  if (map.column_begin < map.row_end) {
    if (const Status status = mix(map, m, multiprocessors, shared_bytes, stream); status != Status::ok) return status;
  }
  return finish_pixels(rectangle, m.pool, stream);
}

bool valid(const MixingStrip& strip) {
  const bool rows = strip.row_begin >= 0 && strip.row_begin < strip.row_end && strip.row_end <= strip.head.length;
  return mixing_sizes_valid(strip.head) && rows && strip.tables != nullptr && strip.entries != nullptr &&
         (strip.written != nullptr || strip.slot != nullptr);
}

Status write_strip(const MixingStrip& strip, int multiprocessors, int shared_bytes, cudaStream_t stream) {
  const StripExtent extent(strip.row_begin, strip.row_end);
  void* const zeros = strip.slot == nullptr ? static_cast<void*>(strip.written) : strip.entries;
  const std::int64_t slots = StripExtent(0, strip.slots).row_blocks * kTileKeys;
  const std::int64_t bytes = strip.slot == nullptr ? extent.groups() : slots * extent.tiles * kTileKeys * 4;
  if (!succeeded(cudaMemsetAsync(zeros, 0, static_cast<std::size_t>(bytes), stream))) return Status::failed;
  const MixingParts parts(strip.head);
  for (int n = 0; n < parts.count; ++n) {
    MixingMap map;
    map.head = parts.head[n];
    map.tables = static_cast<const char*>(strip.tables) + parts.at[n];
    map.row_begin = strip.row_begin;
    map.row_end = map.column_end = strip.row_end;
    MixingParameters m = parameters(map, MixingTables(map.head));
    m.pool.row_begin = static_cast<int>(map.row_begin);
    m.pool.row_end = m.pool.column_end = static_cast<int>(map.row_end);
    m.strip = strip.entries;
    m.tiles = static_cast<int>(extent.tiles);
    m.written = strip.slot == nullptr ? strip.written : nullptr;
    m.slot = strip.slot;
    m.adds = n > 0;
    if (const Status status = mix(map, m, multiprocessors, shared_bytes, stream); status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace
}  // namespace maps

std::size_t mixing_map_workspace_bytes(const MixingMap& map) {
  return pooled_map_workspace_bytes(maps::rectangle_of(map));
}

Status mixing_map(const MixingMap& map, Stream stream) {
  if (!maps::valid(map)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  maps::MapDevice device;
  return maps::current(device) ? maps::run(map, device.multiprocessors, device.shared_bytes, stream) : Status::failed;
}

Status mixing_strip(const MixingStrip& strip, Stream stream) {
  if (!maps::valid(strip)) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  maps::MapDevice device;
  return maps::current(device) ? maps::write_strip(strip, device.multiprocessors, device.shared_bytes, stream)
                               : Status::failed;
}

}  // namespace foxscope::kernels::cuda
