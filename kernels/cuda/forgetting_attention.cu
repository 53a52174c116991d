// Checks, workspace and choice of kernel; the kernels are in files of their own.
#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/attention_parameters.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/forgetting_attention.h"
#include "kernels/cuda/gate_bias.cuh"
#include "kernels/cuda/pruning.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Device {
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  int cache_bytes = 0;
};

/// False where there is none that the kernels run on.
bool current_device(Device& device) {
  int index = 0;
  if (!is_available() || !succeeded(cudaGetDevice(&index))) return false;
  const auto get = [&](int& value, cudaDeviceAttr attribute) {
    return succeeded(cudaDeviceGetAttribute(&value, attribute, index));
  };
  return get(device.major, cudaDevAttrComputeCapabilityMajor) && get(device.minor, cudaDevAttrComputeCapabilityMinor) &&
         get(device.multiprocessors, cudaDevAttrMultiProcessorCount) && get(device.cache_bytes, cudaDevAttrL2CacheSize);
}

/// Which kernel was chosen.
enum class Choice { hopper, portable, float32 };

bool known_head_dim(std::int64_t d) { return d == 16 || d == 32 || d == 64 || d == 96 || d == 128; }

bool sizes_valid(const ForgettingAttention& a) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  if (a.batch < 1 || a.heads < 1 || a.key_heads < 1 || a.length < 1 || a.length > kMost) return false;
  if (a.heads % a.key_heads != 0 || a.head_dim < 8 || a.head_dim > 128 || a.head_dim % 8 != 0) return false;
  // Heads are a grid's y, blocks of rows are counted in int.
  return a.batch * a.heads <= 65535 && a.batch * a.heads * divide_up(a.length, 64) <= kMost;
}

bool valid(const ForgettingAttention& a) {
  if (!sizes_valid(a) || a.window_size < 0 || !std::isfinite(a.scale) || !(a.scale > 0)) return false;
  if (a.query == nullptr || a.key == nullptr || a.value == nullptr || a.output == nullptr) return false;
  return a.workspace != nullptr && a.pruning_tolerance >= 0 && a.pruning_tolerance < 1;
}

bool prunes(const ForgettingAttention& a) { return a.pruning_tolerance > 0 && a.cumulative_log_gate != nullptr; }

/// Whether rows start at multiples of 16 bytes.
/// @param count  of numbers in 16 bytes
bool all_aligned(const ForgettingAttention& a, std::int64_t count) {
  const auto aligned = [count](const void* data, const AttentionStrides& s) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && s.batch % count == 0 && s.head % count == 0 &&
           s.row % count == 0;
  };
  return aligned(a.query, a.query_strides) && aligned(a.key, a.key_strides) && aligned(a.value, a.value_strides) &&
         aligned(a.output, a.output_strides);
}

/// Of 16 bytes.
std::int64_t count_of(Choice choice) { return choice == Choice::float32 ? 4 : 8; }

/// Where the parts of the workspace lie, in bytes.
struct WorkspacePlan {
  std::int64_t bias = 0, counters = 0, key_norms = 0, rows = 0, retained = 0, norms = 0, first_tile = 0, bytes = 0;
  std::int64_t padded = 0, items = 0;
  int row_blocks = 0, key_blocks = 0;
};

WorkspacePlan plan_workspace(const ForgettingAttention& a, TileShape tile) {
  WorkspacePlan w;
  const std::int64_t heads = a.batch * a.heads;
  w.row_blocks = static_cast<int>(divide_up(a.length, tile.rows));
  w.key_blocks = static_cast<int>(divide_up(a.length, tile.keys));
  w.padded = std::int64_t{w.key_blocks} * tile.keys;
  w.items = heads * w.row_blocks;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t at = w.bytes;
    w.bytes += divide_up(bytes, kAlignment) * kAlignment;
    return at;
  };
  w.bias = take(heads * w.padded * 16);
  w.counters = take(static_cast<std::int64_t>(sizeof(AttentionCounters)) + w.items * 4);
  if (prunes(a) || a.pruning_tolerance > 0) {
    w.key_norms = take(a.batch * a.key_heads * divide_up(a.length, kRowsOfPart) * 4);
    w.rows = take(w.items * 8);
    w.retained = take(heads * w.key_blocks * 8);
    w.norms = take(heads * w.key_blocks * 4);
    w.first_tile = take(w.items * 4);
  }
  return w;
}

TileShape hopper_tile(std::int64_t head_dim) { return head_dim == 64 ? kHopperTile64 : kHopperTile128; }

bool can_hopper(const ForgettingAttention& a, const Device& device) {
  return device.major == 9 && device.minor == 0 && all_aligned(a, count_of(Choice::hopper)) &&
         (a.head_dim == 64 || a.head_dim == 128);
}

/// A stride along an axis of one entry is never followed, but has to be a possible one.
AttentionStrides possible(AttentionStrides s, std::int64_t heads, const ForgettingAttention& a) {
  if (a.length == 1) s.row = a.head_dim;
  if (heads == 1) s.head = s.row * a.length;
  if (a.batch == 1) s.batch = s.head * heads;
  return s;
}

TensorView view(const void* data, const AttentionStrides& s, std::int64_t heads, const ForgettingAttention& a) {
  const AttentionStrides strides = possible(s, heads, a);
  return {data, strides.batch, strides.head, strides.row};
}

/// Makes p.first_tile.
template <class T>
cudaError_t prune(const ForgettingAttention& a, AttentionParameters& p, const WorkspacePlan& plan, TileShape tile,
                  cudaStream_t stream) {
  char* memory = static_cast<char*>(a.workspace);
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
  const std::int64_t blocks = plan.items + divide_up(warps, tile.rows / 32);
  measure<T><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(p, d, tile, a.scale, w, a.blocks);
  find_first_tiles<<<heads, kSearchThreads, 0, stream>>>(p, tile, std::log(a.pruning_tolerance), w, a.blocks);
  p.first_tile = w.first_tile;
  return cudaGetLastError();
}

cudaError_t attend(const AttentionParameters& p, std::int64_t head_dim, Choice choice, cudaStream_t stream) {
  if (choice == Choice::float32) return float32_attention(p, static_cast<int>(head_dim), stream);
  if (choice == Choice::hopper)
    return head_dim == 64 ? hopper_attention_64(p, stream) : hopper_attention_128(p, stream);
  switch (head_dim) {
    case 16:
      return portable_attention_16(p, stream);
    case 32:
      return portable_attention_32(p, stream);
    case 64:
      return portable_attention_64(p, stream);
    case 96:
      return portable_attention_96(p, stream);
    default:
      return portable_attention_128(p, stream);
  }
}

cudaError_t run(const ForgettingAttention& a, const Device& device, Choice choice, cudaStream_t stream) {
  const TileShape tile = choice == Choice::hopper ? hopper_tile(a.head_dim) : kPortableTile;
  const WorkspacePlan plan = plan_workspace(a, tile);
  char* memory = static_cast<char*>(a.workspace);
  AttentionParameters p;
  p.query = view(a.query, a.query_strides, a.heads, a);
  p.key = view(a.key, a.key_strides, a.key_heads, a);
  p.value = view(a.value, a.value_strides, a.key_heads, a);
  p.output = {a.output, a.output_strides.batch, a.output_strides.head, a.output_strides.row};
  p.gate = a.cumulative_log_gate;
  p.bias = memory + plan.bias;
  p.log_normalizer = a.log_normalizer;
  p.bias_length = plan.padded;
  p.batch = static_cast<int>(a.batch);
  p.heads = static_cast<int>(a.heads);
  p.key_heads = static_cast<int>(a.key_heads);
  p.group = static_cast<int>(a.heads / a.key_heads);
  p.length = static_cast<int>(a.length);
  p.window_size = static_cast<int>(a.window_size < a.length ? a.window_size : 0);
  p.scale_log2 = static_cast<float>(a.scale * 1.4426950408889634);
  p.gate_to_logit = 1.0 / static_cast<double>(a.scale);
  p.counters = reinterpret_cast<AttentionCounters*>(memory + plan.counters);
  p.marked = reinterpret_cast<int*>(p.counters + 1);
  p.items = static_cast<int>(plan.items);
  p.row_blocks = plan.row_blocks;
  p.multiprocessors = device.multiprocessors;
  p.cache_bytes = device.cache_bytes;
  p.aligned = all_aligned(a, count_of(choice));
  if (prunes(a)) {
    const auto e = choice == Choice::float32 ? prune<float>(a, p, plan, tile, stream)
                                             : prune<__nv_bfloat16>(a, p, plan, tile, stream);
    if (e != cudaSuccess) return e;
  }
  if (choice == Choice::float32) return attend(p, a.head_dim, choice, stream);
  constexpr unsigned kThreads = 256;
  const dim3 grid(static_cast<unsigned>(divide_up(plan.padded, kThreads)), static_cast<unsigned>(a.batch * a.heads));
  gate_bias<<<grid, kThreads, 0, stream>>>(a.cumulative_log_gate, p.length, static_cast<int>(plan.padded), tile.keys,
                                           p.gate_to_logit, static_cast<uint4*>(const_cast<void*>(p.bias)), p.counters);
  if (const auto e = cudaGetLastError()) return e;
  return attend(p, a.head_dim, choice, stream);
}

}  // namespace

AttentionKernel automatic_kernel(const ForgettingAttention& arguments) {
  Device device;
  if (!current_device(device)) return AttentionKernel::automatic;
  return can_hopper(arguments, device) ? AttentionKernel::hopper : AttentionKernel::portable;
}

std::size_t workspace_bytes(const ForgettingAttention& arguments) {
  if (!sizes_valid(arguments)) return 0;
  std::int64_t bytes = plan_workspace(arguments, kPortableTile).bytes;
  if (arguments.head_dim == 64 || arguments.head_dim == 128) {
    bytes = std::max(bytes, plan_workspace(arguments, hopper_tile(arguments.head_dim)).bytes);
  }
  return static_cast<std::size_t>(bytes);
}

Status forgetting_attention(const ForgettingAttention& arguments, Stream stream, AttentionKernel kernel) {
  if (!valid(arguments) || !known_head_dim(arguments.head_dim)) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  const bool hopper_runs = can_hopper(arguments, device);
  if (kernel == AttentionKernel::hopper && !hopper_runs) return Status::invalid_argument;
  const bool hopper = hopper_runs && kernel != AttentionKernel::portable;
  return status_of(run(arguments, device, hopper ? Choice::hopper : Choice::portable, stream));
}

Status forgetting_attention_float32(const ForgettingAttention& arguments, Stream stream) {
  if (!valid(arguments)) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  return status_of(run(arguments, device, Choice::float32, stream));
}

}  // namespace foxscope::kernels::cuda
