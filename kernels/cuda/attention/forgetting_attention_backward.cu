// Checks, workspace and choice of kernel; the kernels are in files of their own.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/attention/attention_setup.cuh"
#include "kernels/cuda/attention/backward_order.cuh"
#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/attention/backward_rows.cuh"
#include "kernels/cuda/attention/forgetting_attention_backward.h"
#include "kernels/cuda/errors.cuh"

namespace foxscope::kernels::cuda {
namespace {

enum class BackwardChoice { hopper, portable, float32 };

bool backward_valid(const ForgettingAttentionBackward& a) {
  return arguments_valid(a.forward) && a.forward.head_dim <= kMostGradientDim && a.forward.log_normalizer != nullptr &&
         a.output_gradient != nullptr && a.query_gradient != nullptr && a.key_gradient != nullptr &&
         a.value_gradient != nullptr && a.workspace != nullptr;
}

/// @param count  of numbers in 16 bytes
bool all_rows_aligned(const ForgettingAttentionBackward& a, std::int64_t count) {
  const ForgettingAttention& f = a.forward;
  return rows_aligned(f.query, f.query_strides, count) && rows_aligned(f.key, f.key_strides, count) &&
         rows_aligned(f.value, f.value_strides, count) && rows_aligned(f.output, f.output_strides, count) &&
         rows_aligned(a.output_gradient, a.output_gradient_strides, count) &&
         rows_aligned(a.query_gradient, a.query_gradient_strides, count) &&
         rows_aligned(a.key_gradient, a.key_gradient_strides, count) &&
         rows_aligned(a.value_gradient, a.value_gradient_strides, count);
}

bool can_hopper_backward(const ForgettingAttentionBackward& a, const Device& device) {
  return device.major == 9 && device.minor == 0 && all_rows_aligned(a, 8) &&
         (a.forward.head_dim == 64 || a.forward.head_dim == 128);
}

TileShape backward_tile(BackwardChoice choice, std::int64_t head_dim) {
  if (choice == BackwardChoice::float32) return kFloat32Tile;
  if (choice == BackwardChoice::portable) return kPortableBackwardTile;
  return head_dim == 64 ? kHopperBackwardTile64 : kHopperBackwardTile128;
}

/// Most rows of a block, in any tile.
constexpr int kMostBackwardRows = 128;

/// Where the parts of the workspace lie, in bytes.
struct BackwardPlan {
  std::int64_t statistics = 0, sums = 0, row_sums = 0, column_sums = 0, last_block = 0, turns = 0, ticket = 0;
  std::int64_t bytes = 0;
  std::int64_t row_parts = 0;
  PruningPlan pruning;
};

BackwardPlan plan_backward(const ForgettingAttentionBackward& a, TileShape tile) {
  const ForgettingAttention& f = a.forward;
  BackwardPlan plan;
  WorkspaceLayout layout;
  const std::int64_t heads = f.batch * f.heads;
  plan.row_parts = divide_up(f.length, kMostBackwardRows) * (kMostBackwardRows / kStatisticsRows);
  const std::int64_t parts = heads * plan.row_parts;
  constexpr std::int64_t kPieces = kStatisticsRows / kSumRows;
  plan.statistics = layout.take(parts * static_cast<std::int64_t>(sizeof(RowStatistics)));
  plan.sums = layout.take(parts * kPieces * sum_piece(static_cast<int>(f.head_dim)) * 4);
  plan.row_sums = plan.sums;  // in float32, where there is no other use for them
  plan.column_sums = layout.take(heads * f.length * 4);
  if (a.deterministic) {
    plan.turns = layout.take(parts * kPieces * kTurns * 4);
    plan.ticket = layout.take(4);
  }
  if (f.pruning_tolerance > 0) {
    plan.pruning = PruningPlan(f, tile, layout);
    plan.last_block = layout.take(heads * divide_up(f.length, tile.keys) * 4);
  }
  plan.bytes = layout.bytes;
  return plan;
}

BackwardParameters backward_parameters(const ForgettingAttentionBackward& a, const BackwardPlan& plan, TileShape tile,
                                       BackwardChoice choice) {
  const ForgettingAttention& f = a.forward;
  const AttentionParameters common = common_parameters(f);
  char* memory = static_cast<char*>(a.workspace);
  BackwardParameters p;
  p.query = common.query;
  p.key = common.key;
  p.value = common.value;
  p.output = view(f.output, f.output_strides, f.heads, f);
  p.output_gradient = view(a.output_gradient, a.output_gradient_strides, f.heads, f);
  const auto output = [](void* data, const AttentionStrides& s) {
    return MutableTensorView{data, s.batch, s.head, s.row};
  };
  p.query_gradient = output(a.query_gradient, a.query_gradient_strides);
  p.key_gradient = output(a.key_gradient, a.key_gradient_strides);
  p.value_gradient = output(a.value_gradient, a.value_gradient_strides);
  p.gate = common.gate;
  p.log_normalizer = common.log_normalizer;
  p.statistics = reinterpret_cast<RowStatistics*>(memory + plan.statistics);
  const bool exact = choice == BackwardChoice::float32;
  p.sums = exact ? nullptr : reinterpret_cast<float*>(memory + plan.sums);
  p.row_sums = exact ? reinterpret_cast<float*>(memory + plan.row_sums) : nullptr;
  p.column_sums =
      a.key_logit_gradient != nullptr ? a.key_logit_gradient : reinterpret_cast<float*>(memory + plan.column_sums);
  if (a.deterministic && !exact) {
    p.turns = reinterpret_cast<int*>(memory + plan.turns);
    p.ticket = reinterpret_cast<int*>(memory + plan.ticket);
  }
  p.batch = common.batch;
  p.heads = common.heads;
  p.key_heads = common.key_heads;
  p.group = common.group;
  p.length = common.length;
  p.window_size = common.window_size;
  p.scale = f.scale;
  p.scale_log2 = common.scale_log2;
  p.row_parts = static_cast<int>(plan.row_parts);
  p.row_blocks = static_cast<int>(divide_up(f.length, tile.rows));
  p.key_blocks = static_cast<int>(divide_up(f.length, tile.keys));
  p.aligned = all_rows_aligned(a, exact ? 4 : 8);
  return p;
}

/// Makes p.first_block and p.last_block.
cudaError_t prune_backward(const ForgettingAttentionBackward& a, BackwardParameters& p, const BackwardPlan& plan,
                           TileShape tile, BackwardChoice choice, cudaStream_t stream) {
  AttentionParameters forward = common_parameters(a.forward);
  const int heads = p.batch * p.heads;
  forward.row_blocks = p.row_blocks;
  forward.items = heads * p.row_blocks;
  forward.aligned = p.aligned;
  char* memory = static_cast<char*>(a.workspace);
  const auto find = choice == BackwardChoice::float32 ? find_first_blocks<float> : find_first_blocks<__nv_bfloat16>;
  int* first = find(a.forward, forward, tile, plan.pruning, memory, nullptr, stream);
  if (const auto e = cudaGetLastError()) return e;
  int* last = reinterpret_cast<int*>(memory + plan.last_block);
  constexpr unsigned kTwoWarps = 64;
  find_last_blocks<<<static_cast<unsigned>(heads), kTwoWarps, 0, stream>>>(p.row_blocks, p.key_blocks, first, last);
  p.first_block = first;
  p.last_block = last;
  return cudaGetLastError();
}

cudaError_t multiply_backward(const BackwardParameters& p, int head_dim, BackwardChoice choice, cudaStream_t stream) {
  if (choice == BackwardChoice::float32) return float32_backward(p, head_dim, stream);
  if (choice == BackwardChoice::hopper) {
    return head_dim == 64 ? hopper_backward_64(p, stream) : hopper_backward_128(p, stream);
  }
  switch (head_dim) {
    case 16:
      return portable_backward_16(p, stream);
    case 32:
      return portable_backward_32(p, stream);
    case 64:
      return portable_backward_64(p, stream);
    case 96:
      return portable_backward_96(p, stream);
    default:
      return portable_backward_128(p, stream);
  }
}

cudaError_t run_backward(const ForgettingAttentionBackward& a, const Device& device, BackwardChoice choice,
                         int shared_bytes, cudaStream_t stream) {
  const TileShape tile = backward_tile(choice, a.forward.head_dim);
  const BackwardPlan plan = plan_backward(a, tile);
  BackwardParameters p = backward_parameters(a, plan, tile, choice);
  p.shared_bytes = shared_bytes;
  const auto head_dim = static_cast<int>(a.forward.head_dim);
  // Half of the L2 cache for the rows that are read and the sums of the heads that are computed at a time.
  const double head_bytes = 8.0 * p.length * head_dim * p.group;
  const int all_heads = p.key_heads * p.batch;
  p.heads_at_a_time = std::clamp(static_cast<int>(device.cache_bytes / 2 / head_bytes), 1, all_heads);
  constexpr int kLastRounds = 3;  // of thread blocks that the last group of heads fills the device with
  const int last_heads =
      std::max(p.heads_at_a_time, static_cast<int>(divide_up(kLastRounds * device.multiprocessors, p.key_blocks)));
  p.head_groups = std::max(0, all_heads - last_heads) / p.heads_at_a_time + 1;
  if (prunes(a.forward)) {
    if (const auto e = prune_backward(a, p, plan, tile, choice, stream)) return e;
  }
  const auto heads = static_cast<unsigned>(p.batch * p.heads);
  const unsigned parts = heads * static_cast<unsigned>(p.row_parts);
  const auto prepare = choice == BackwardChoice::float32 ? prepare_rows<float> : prepare_rows<Bfloat16>;
  prepare<<<parts, kRowThreads, 0, stream>>>(p, head_dim);
  if (const auto e = cudaGetLastError()) return e;
  const std::int64_t pieces = std::int64_t{parts} * (kStatisticsRows / kSumRows);
  if (p.turns != nullptr) {
    begin_turns<<<static_cast<unsigned>(divide_up(pieces, kRowThreads)), kRowThreads, 0, stream>>>(p, tile);
    if (const auto e = cudaGetLastError()) return e;
  }
  if (const auto e = multiply_backward(p, head_dim, choice, stream)) return e;
  if (p.sums != nullptr) {
    const auto finish = p.aligned ? finish_rows<true> : finish_rows<false>;
    finish<<<static_cast<unsigned>(divide_up(pieces, kRowThreads / 32)), kRowThreads, 0, stream>>>(p, head_dim);
    if (const auto e = cudaGetLastError()) return e;
  }
  if (a.log_gate_gradient != nullptr) {
    scan_gate_gradient<<<heads, kScanThreads, 0, stream>>>(p, head_dim, a.log_gate_gradient);
  }
  return cudaGetLastError();
}

}  // namespace

std::size_t backward_workspace_bytes(const ForgettingAttentionBackward& arguments) {
  const std::int64_t head_dim = arguments.forward.head_dim;
  if (!sizes_valid(arguments.forward) || head_dim > kMostGradientDim) return 0;
  std::int64_t bytes =
      std::max(plan_backward(arguments, kFloat32Tile).bytes, plan_backward(arguments, kPortableBackwardTile).bytes);
  if (head_dim == 64 || head_dim == 128) {
    bytes = std::max(bytes, plan_backward(arguments, backward_tile(BackwardChoice::hopper, head_dim)).bytes);
  }
  return static_cast<std::size_t>(bytes);
}

Status forgetting_attention_backward(const ForgettingAttentionBackward& arguments, Stream stream,
                                     AttentionKernel kernel) {
  if (!backward_valid(arguments) || !known_head_dim(arguments.forward.head_dim)) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  const bool hopper_runs = can_hopper_backward(arguments, device);
  if (kernel == AttentionKernel::hopper && !hopper_runs) return Status::invalid_argument;
  const bool hopper = hopper_runs && kernel != AttentionKernel::portable && kernel != AttentionKernel::portable_small;
  return status_of(run_backward(arguments, device, hopper ? BackwardChoice::hopper : BackwardChoice::portable,
                                shared_bytes_of(kernel, device), stream));
}

Status forgetting_attention_backward_float32(const ForgettingAttentionBackward& arguments, Stream stream) {
  if (!backward_valid(arguments)) return Status::invalid_argument;
  Device device;
  if (!current_device(device)) return Status::unavailable;
  return status_of(run_backward(arguments, device, BackwardChoice::float32, device.shared_bytes, stream));
}

}  // namespace foxscope::kernels::cuda
