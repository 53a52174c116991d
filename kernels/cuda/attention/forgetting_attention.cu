// Checks, workspace and choice of kernel; the kernels are in files of their own.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/attention/attention_setup.cuh"
#include "kernels/cuda/attention/gate_bias.cuh"
#include "kernels/cuda/errors.cuh"

namespace foxscope::kernels::cuda {
namespace {

/// The kernel that was chosen.
enum class Choice { hopper, portable, float32 };

bool valid(const ForgettingAttention& a) { return arguments_valid(a) && a.workspace != nullptr; }

/// @param count  of numbers in 16 bytes
bool all_aligned(const ForgettingAttention& a, std::int64_t count) {
  return rows_aligned(a.query, a.query_strides, count) && rows_aligned(a.key, a.key_strides, count) &&
         rows_aligned(a.value, a.value_strides, count) && rows_aligned(a.output, a.output_strides, count);
}

/// Numbers in 16 bytes.
std::int64_t count_of(Choice choice) { return choice == Choice::float32 ? 4 : 8; }

/// Where the parts of the workspace lie, in bytes.
struct WorkspacePlan {
  std::int64_t bias = 0, counters = 0, bytes = 0;
  std::int64_t padded = 0, items = 0;
  PruningPlan pruning;
};

WorkspacePlan plan_workspace(const ForgettingAttention& a, TileShape tile) {
  WorkspacePlan w;
  WorkspaceLayout layout;
  const std::int64_t heads = a.batch * a.heads;
  w.padded = divide_up(a.length, tile.keys) * tile.keys;
  w.items = heads * divide_up(a.length, tile.rows);
  w.bias = layout.take(heads * w.padded * 16);
  w.counters = layout.take(static_cast<std::int64_t>(sizeof(AttentionCounters)) + w.items * 4);
  if (a.pruning_tolerance > 0) w.pruning = PruningPlan(a, tile, layout);
  w.bytes = layout.bytes;
  return w;
}

TileShape tile_of(Choice choice, std::int64_t head_dim) {
  if (choice == Choice::float32) return kFloat32Tile;
  if (choice == Choice::portable) return kPortableTile;
  return head_dim == 64 ? kHopperTile64 : kHopperTile128;
}

bool can_hopper(const ForgettingAttention& a, const Device& device) {
  return device.major == 9 && device.minor == 0 && all_aligned(a, count_of(Choice::hopper)) &&
         (a.head_dim == 64 || a.head_dim == 128);
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
    case 128:
      return portable_attention_128(p, stream);
    case 192:
      return portable_attention_192(p, stream);
    default:
      return portable_attention_256(p, stream);
  }
}

cudaError_t run(const ForgettingAttention& a, const Device& device, Choice choice, int shared_bytes,
                cudaStream_t stream) {
  const TileShape tile = tile_of(choice, a.head_dim);
  const WorkspacePlan plan = plan_workspace(a, tile);
  char* memory = static_cast<char*>(a.workspace);
  AttentionParameters p = common_parameters(a);
  p.bias = memory + plan.bias;
  p.bias_length = plan.padded;
  p.counters = reinterpret_cast<AttentionCounters*>(memory + plan.counters);
  p.marked = reinterpret_cast<int*>(p.counters + 1);
  p.items = static_cast<int>(plan.items);
  p.row_blocks = static_cast<int>(divide_up(a.length, tile.rows));
  p.multiprocessors = device.multiprocessors;
  p.cache_bytes = device.cache_bytes;
  p.shared_bytes = shared_bytes;
  p.aligned = all_aligned(a, count_of(choice));
  if (prunes(a)) {
    const auto find = choice == Choice::float32 ? find_first_blocks<float> : find_first_blocks<__nv_bfloat16>;
    p.first_tile = find(a, p, tile, plan.pruning, memory, a.blocks, stream);
    if (const auto e = cudaGetLastError()) return e;
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
  std::int64_t bytes = 0;
  for (const Choice choice : {Choice::hopper, Choice::portable, Choice::float32}) {
    bytes = std::max(bytes, plan_workspace(arguments, tile_of(choice, arguments.head_dim)).bytes);
  }
  return static_cast<std::size_t>(bytes);
}

Status forgetting_attention(const ForgettingAttention& arguments, Stream stream, AttentionKernel kernel) {
  if (!valid(arguments) || !known_head_dim(arguments.head_dim)) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  const bool hopper_runs = can_hopper(arguments, device);
  if (kernel == AttentionKernel::hopper && !hopper_runs) return Status::invalid_argument;
  const bool hopper = hopper_runs && kernel != AttentionKernel::portable && kernel != AttentionKernel::portable_small;
  return status_of(
      run(arguments, device, hopper ? Choice::hopper : Choice::portable, shared_bytes_of(kernel, device), stream));
}

Status forgetting_attention_float32(const ForgettingAttention& arguments, Stream stream) {
  if (!valid(arguments) || arguments.head_dim > kMostGradientDim) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  return status_of(run(arguments, device, Choice::float32, device.shared_bytes, stream));
}

}  // namespace foxscope::kernels::cuda
