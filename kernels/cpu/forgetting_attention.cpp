#include "kernels/cpu/forgetting_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>

#include "kernels/cpu/forgetting_attention_tiles.h"

namespace foxscope::kernels::cpu {
namespace {

// Packed keys and values of so many bytes exist at a time, but of as many heads as give every thread enough to do.
constexpr std::int64_t kPackedBytes = std::int64_t{16} << 20;
constexpr std::int64_t kTasksPerThread = 16;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

bool valid(const ForgettingAttention& a) {
  if (a.batch < 1 || a.heads < 1 || a.key_heads < 1 || a.length < 1 || a.head_dim < 1) return false;
  if (a.heads % a.key_heads != 0 || a.window_size < 0 || !std::isfinite(a.scale)) return false;
  if (!(a.logit_cap >= 0) || !std::isfinite(a.logit_cap)) return false;
  if (a.query == nullptr || a.key == nullptr || a.value == nullptr || a.output == nullptr) return false;
  if (!(a.pruning_tolerance >= 0 && a.pruning_tolerance < 1)) return false;
  // Rows of the output that overlap would be written by several threads at once.
  return a.length == 1 || std::abs(a.output_strides.row) >= a.head_dim;
}

FloatBuffer allocate(std::int64_t count) {
  FloatBuffer buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(count));
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}

PackedKeys allocate_packed(const ForgettingAttention& a, std::int64_t threads) {
  PackedKeys packed;
  packed.blocks = divide_up(a.length, kKeyBlock);
  packed.value_dim = round_up(a.head_dim, 16);
  const std::int64_t key_floats = packed.blocks * kKeyBlock * a.head_dim;
  const std::int64_t value_floats = packed.blocks * kKeyBlock * packed.value_dim;
  const std::int64_t fit = kPackedBytes / ((key_floats + value_floats) * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t tasks = divide_up(a.length, kQueryBlock) * (a.heads / a.key_heads);
  const std::int64_t busy = divide_up(threads * kTasksPerThread, tasks);
  packed.key_heads = std::min(std::max(fit, busy), a.batch * a.key_heads);
  packed.keys = allocate(packed.key_heads * key_floats);
  packed.values = allocate(packed.key_heads * value_floats);
  packed.norms.resize(static_cast<std::size_t>(packed.key_heads * packed.blocks));
  packed.irregular.resize(packed.norms.size());
  if (a.cumulative_log_gate != nullptr && a.pruning_tolerance > 0) {
    const std::int64_t heads = packed.key_heads * (a.heads / a.key_heads);
    packed.retained.resize(static_cast<std::size_t>(heads * packed.blocks));
  }
  return packed;
}

Scratch allocate_scratch(const ForgettingAttention& a) {
  Scratch scratch;
  scratch.queries = allocate(kQueryBlock * a.head_dim);
  scratch.logits = allocate(kQueryBlock * kKeyBlock);
  scratch.output = allocate(kQueryBlock * round_up(a.head_dim, 16));
  scratch.sums = allocate(kQueryBlock * kMaxLanes);
  scratch.sums_without_gate = allocate(kQueryBlock * kMaxLanes);
  scratch.gate_bias = allocate(kKeyBlock);
  for (auto* rows :
       {&scratch.reference, &scratch.reference_without_gate, &scratch.factors, &scratch.row_terms, &scratch.norms}) {
    rows->resize(kQueryBlock);
  }
  return scratch;
}

/// Rearranges the next key heads; false when stopped.
bool pack(const ForgettingAttention& a, PackedKeys& packed, Executor& executor, const std::stop_token& stop) {
  std::atomic<bool> stopped = false;
  const std::int64_t group = a.heads / a.key_heads;
  const std::int64_t blocks = packed.key_heads * packed.blocks;
  const std::int64_t gates = packed.retained.empty() ? 0 : packed.key_heads * group;
  executor.run(gates + blocks, [&](std::int64_t task, int) {
    if (stop.stop_requested()) {
      stopped = true;
    } else if (task < gates) {
      retained_mass(a, packed.first_key_head * group + task, packed.retained.data() + task * packed.blocks);
    } else {
      pack_block(a, packed, (task - gates) / packed.blocks, (task - gates) % packed.blocks);
    }
  });
  for (std::int64_t key_head = 0; key_head < packed.key_heads; ++key_head) {
    float* norms = packed.norms.data() + key_head * packed.blocks;
    std::partial_sum(norms, norms + packed.blocks, norms,
                     [](float a_norm, float b_norm) { return std::max(a_norm, b_norm); });
  }
  return !stopped;
}

/// Computes all rows of the heads that read the packed keys; false when stopped.
bool attend(const ForgettingAttention& a, const PackedKeys& packed, Executor& executor, const std::stop_token& stop,
            std::vector<Scratch>& scratch) {
  std::atomic<bool> stopped = false;
  const std::int64_t group = a.heads / a.key_heads;
  const std::int64_t heads = packed.key_heads * group;
  const std::int64_t row_blocks = divide_up(a.length, kQueryBlock);
  executor.run(heads * row_blocks, [&](std::int64_t task, int thread) {
    if (stop.stop_requested()) {
      stopped = true;
      return;
    }
    // The last rows see most keys: they go first, so that the threads end together.
    const std::int64_t row_block = row_blocks - 1 - task / heads;
    const std::int64_t head = packed.first_key_head * group + task % heads;
    attend_rows(a, packed, head, row_block * kQueryBlock, scratch[static_cast<std::size_t>(thread)]);
  });
  return !stopped;
}

}  // namespace

Status forgetting_attention(const ForgettingAttention& arguments, Executor& executor, const std::stop_token& stop,
                            AttentionBlocks* blocks) {
  if (!valid(arguments)) return Status::invalid_argument;
  PackedKeys packed = allocate_packed(arguments, executor.threads());
  std::vector<Scratch> scratch;
  scratch.reserve(static_cast<std::size_t>(executor.threads()));
  for (int thread = 0; thread < executor.threads(); ++thread) scratch.push_back(allocate_scratch(arguments));
  const std::int64_t key_heads = arguments.batch * arguments.key_heads;
  const std::int64_t at_a_time = packed.key_heads;
  for (std::int64_t first = 0; first < key_heads; first += at_a_time) {
    packed.first_key_head = first;
    packed.key_heads = std::min(at_a_time, key_heads - first);
    if (!pack(arguments, packed, executor, stop)) return Status::cancelled;
    if (!attend(arguments, packed, executor, stop, scratch)) return Status::cancelled;
  }
  if (blocks != nullptr) {
    *blocks = {};
    for (const Scratch& each : scratch) {
      blocks->total += each.blocks.total;
      blocks->skipped += each.blocks.skipped;
    }
  }
  return Status::ok;
}

}  // namespace foxscope::kernels::cpu
