// Set-up of a call of attention or of its backward before a kernel is launched. Private to kernels/cuda.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/attention/pruning.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Device {
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  int cache_bytes = 0;
  int shared_bytes = 0;  ///< of a multiprocessor
};

/// False where there is none that the kernels run on.
inline bool current_device(Device& device) {
  int index = 0;
  if (!is_available() || !succeeded(cudaGetDevice(&index))) return false;
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    return succeeded(cudaDeviceGetAttribute(&value, attribute, index));
  };
  return get(device.major, cudaDevAttrComputeCapabilityMajor) && get(device.minor, cudaDevAttrComputeCapabilityMinor) &&
         get(device.multiprocessors, cudaDevAttrMultiProcessorCount) &&
         get(device.cache_bytes, cudaDevAttrL2CacheSize) &&
         get(device.shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
}

/// Shared memory that the portable kernel may count on.
inline int shared_bytes_of(AttentionKernel kernel, const Device& device) {
  return kernel == AttentionKernel::portable_small ? kLeastSharedBytes : device.shared_bytes;
}

constexpr std::int64_t kMostAttentionDim = 256;
/// The widest heads of float32, and of gradients.
constexpr std::int64_t kMostGradientDim = 128;

/// Whether the bfloat16 kernels know a head dimension; those of gradients end at kMostGradientDim.
constexpr bool known_head_dim(std::int64_t d) {
  return d == 16 || d == 32 || d == 64 || d == 96 || d == 128 || d == 192 || d == 256;
}

inline bool sizes_valid(const ForgettingAttention& a) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  if (a.batch < 1 || a.heads < 1 || a.key_heads < 1 || a.length < 1 || a.length > kMost) return false;
  if (a.heads % a.key_heads != 0 || a.head_dim < 8 || a.head_dim > kMostAttentionDim || a.head_dim % 8 != 0)
    return false;
  // Heads are a grid's y, blocks of rows are counted in int.
  return a.batch * a.heads <= 65535 && a.batch * a.heads * divide_up(a.length, 64) <= kMost;
}

/// Sizes, pointers and numbers of the call, but for its log-normaliser and workspace.
inline bool arguments_valid(const ForgettingAttention& a) {
  if (!sizes_valid(a) || a.window_size < 0 || !std::isfinite(a.scale) || !(a.scale > 0)) return false;
  if (a.query == nullptr || a.key == nullptr || a.value == nullptr || a.output == nullptr) return false;
  return a.pruning_tolerance >= 0 && a.pruning_tolerance < 1;
}

inline bool prunes(const ForgettingAttention& a) { return a.pruning_tolerance > 0 && a.cumulative_log_gate != nullptr; }

/// Whether rows start at multiples of 16 bytes.
/// @param count  of numbers in 16 bytes
inline bool rows_aligned(const void* data, const AttentionStrides& s, std::int64_t count) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && s.batch % count == 0 && s.head % count == 0 &&
         s.row % count == 0;
}

/// A stride along an axis of one entry is never followed, but has to be a possible one.
inline AttentionStrides possible(AttentionStrides s, std::int64_t heads, const ForgettingAttention& a) {
  if (a.length == 1) s.row = a.head_dim;
  if (heads == 1) s.head = s.row * a.length;
  if (a.batch == 1) s.batch = s.head * heads;
  return s;
}

inline TensorView view(const void* data, const AttentionStrides& s, std::int64_t heads, const ForgettingAttention& a) {
  const AttentionStrides strides = possible(s, heads, a);
  return {data, strides.batch, strides.head, strides.row};
}

/// Gives out the bytes of a workspace.
struct WorkspaceLayout {
  std::int64_t bytes = 0;

  /// Where the next `count` bytes begin.
  std::int64_t take(std::int64_t count) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t at = bytes;
    bytes += divide_up(count, kAlignment) * kAlignment;
    return at;
  }
};

/// Where a PruningWorkspace lies, in bytes.
struct PruningPlan {
  std::int64_t key_norms = 0, rows = 0, retained = 0, norms = 0, first_tile = 0;
  int row_blocks = 0, key_blocks = 0;

  PruningPlan() = default;
  PruningPlan(const ForgettingAttention& a, TileShape tile, WorkspaceLayout& layout)
      : row_blocks(static_cast<int>(divide_up(a.length, tile.rows))),
        key_blocks(static_cast<int>(divide_up(a.length, tile.keys))) {
    const std::int64_t heads = a.batch * a.heads;
    key_norms = layout.take(a.batch * a.key_heads * divide_up(a.length, kRowsOfPart) * 4);
    rows = layout.take(heads * row_blocks * 8);
    retained = layout.take(heads * key_blocks * 8);
    norms = layout.take(heads * key_blocks * 4);
    first_tile = layout.take(heads * row_blocks * 4);
  }
};

/// The parameters that attention and its backward have in common.
inline AttentionParameters common_parameters(const ForgettingAttention& a) {
  AttentionParameters p;
  p.query = view(a.query, a.query_strides, a.heads, a);
  p.key = view(a.key, a.key_strides, a.key_heads, a);
  p.value = view(a.value, a.value_strides, a.key_heads, a);
  p.output = {a.output, a.output_strides.batch, a.output_strides.head, a.output_strides.row};
  p.gate = a.cumulative_log_gate;
  p.log_normalizer = a.log_normalizer;
  p.batch = static_cast<int>(a.batch);
  p.heads = static_cast<int>(a.heads);
  p.key_heads = static_cast<int>(a.key_heads);
  p.group = static_cast<int>(a.heads / a.key_heads);
  p.length = static_cast<int>(a.length);
  p.window_size = static_cast<int>(a.window_size < a.length ? a.window_size : 0);
  p.scale_log2 = static_cast<float>(a.scale * kLog2E);
  p.gate_to_logit = 1.0 / static_cast<double>(a.scale);
  return p;
}

/// Searches the first key block of each block of rows.
/// @param p       its blocks of rows are the tile's
/// @param memory  the workspace that the plan is for
/// @param blocks  counted where not null
/// @returns [B, H, row_blocks], on the device
template <class T>
int* find_first_blocks(const ForgettingAttention& a, const AttentionParameters& p, TileShape tile,
                       const PruningPlan& plan, char* memory, AttentionBlocks* blocks, cudaStream_t stream) {
  PruningWorkspace w = {};
  w.key_norms = reinterpret_cast<float*>(memory + plan.key_norms);
  w.rows = reinterpret_cast<float2*>(memory + plan.rows);
  w.retained = reinterpret_cast<double*>(memory + plan.retained);
  w.norms = reinterpret_cast<float*>(memory + plan.norms);
  w.first_tile = reinterpret_cast<int*>(memory + plan.first_tile);
  w.key_blocks = plan.key_blocks;
  w.key_parts = static_cast<int>(divide_up(a.length, kRowsOfPart));
  const auto d = static_cast<int>(a.head_dim);
  const auto heads = static_cast<unsigned>(a.batch * a.heads);
  const auto threads = static_cast<unsigned>(tile.rows);
  const std::int64_t warps = std::int64_t{heads} * plan.key_blocks;
  const std::int64_t grid = p.items + divide_up(warps, tile.rows / 32);
  measure<T><<<static_cast<unsigned>(grid), threads, 0, stream>>>(p, d, tile, a.scale, w, blocks);
  find_first_tiles<<<heads, kSearchThreads, 0, stream>>>(p, tile, std::log(a.pruning_tolerance), w, blocks);
  return w.first_tile;
}

}  // namespace foxscope::kernels::cuda
