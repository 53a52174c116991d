// Forgetting attention for every card since compute capability 8.0: cp.async and mma.sync. Private to kernels/cuda.
//
// A warp owns rows, whose queries stay in registers, and goes through the keys 16 at a time: logits, weights, their
// product with the values. A fragment of keys or values is read for all rows of the warp. The logits of the next 16
// keys are made beside the weights of these. Keys and values come in stages, a ring of them in shared memory, the next
// of which are copied meanwhile.
//
// The gate is one more slice of 8 in Q K^T, as on Hopper (hopper_attention.cuh). As there, the softmax does not follow
// the running maximum: its reference is a row's largest logit in the stage that holds the row's own key, which is
// visited first, so that no weight waits for a maximum. If a sum then passes kLargestSum or is not a number, or if the
// gate falls too far for the slice (kMostSliceFall), the thread block computes its rows again with a running maximum
// and, in the rows' own keys, gates of float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/attention/portable/portable_tile.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::portable {

constexpr float kLargestSum = 1.15e18F;  // 2^60

/// How a head dimension is computed.
/// @tparam WarpRows   16 or 32, which share the fragments of keys and values
/// @tparam StageKeys  keys that are copied together
/// @tparam Blocks     thread blocks of a multiprocessor
template <int HeadDim, int WarpRows, int StageKeys, int Stages, int Blocks>
struct AttentionPlan {
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kWarpRows = WarpRows;
  static constexpr int kParts = WarpRows / 16;
  static constexpr int kRows = kPortableTile.rows;
  static constexpr int kThreads = kRows / WarpRows * 32;
  static constexpr int kStageKeys = StageKeys;
  static constexpr int kStages = Stages;
  static constexpr int kBlocks = Blocks;
  static constexpr int kTileBytes = StageKeys * HeadDim * 2;
  static constexpr int kStageBytes = 2 * kTileBytes + StageKeys * 16;  // keys, values, gates
  static constexpr int kBytes = Stages * kStageBytes;
  static constexpr int kQueryBytes = kRows * HeadDim * 2;  // in the last stages, before these are used
  static_assert(kPortableTile.keys % StageKeys == 0 && StageKeys % 32 == 0 && StageKeys >= WarpRows);
  static_assert(kQueryBytes <= kBytes && kStageBytes % 16 == 0);
};

/// One warp's rows on their way through the keys.
template <class P>
struct AttentionWarp {
  static constexpr int kSteps = P::kHeadDim / 16;
  static constexpr int kGroups = P::kStageKeys / 16;
  static constexpr bool kAhead = P::kParts * P::kHeadDim <= 192;  // there are registers for logits of the next keys
  using Rows = SwizzledRows<P::kHeadDim>;
  using Logits = float[P::kParts][2][4];  // of 16 keys
  using Weights = std::uint32_t[P::kParts][4];
  using OfRows = float[P::kParts][2];

  const AttentionParameters& p;
  std::uint32_t ring;  // in shared memory
  int lane;
  int head, batch;
  std::int64_t key_of_head, value_of_head;  // elements from the tensors' begin
  int first_row;                            // of the warp
  int row;                                  // of the thread the first: the others are 8, 16, 24 rows after it
  int first_stage, last_stage;              // of the thread block
  int own_stage;                            // that holds the warp's own keys
  const double* gate;
  double reference_gate;
  float terms;                             // of 32 stages, one a lane
  FragmentAddress<P::kHeadDim> of_keys;    // matrices of eight keys and 16 columns lie side by side
  FragmentAddress<P::kHeadDim> of_values;  // matrices of 16 keys and eight columns, as those of queries
  std::uint32_t query[P::kParts][kSteps][4];
  float output[P::kParts][2 * kSteps][4];
  OfRows maximum;  // of the own stage, or running; base-2, relative to reference_gate
  OfRows sum;

  __device__ AttentionWarp(const AttentionParameters& parameters, void* shared)
      : p(parameters),
        ring(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
        lane(static_cast<int>(threadIdx.x) % 32),
        terms(0),
        of_keys(lane % 8 + lane / 16 * 8, lane / 8 % 2),
        of_values(lane % 16, lane / 16) {
    const int group_size = p.heads_at_a_time * p.row_blocks;
    const int group = static_cast<int>(blockIdx.x) / group_size;
    const int index = static_cast<int>(blockIdx.x) - group * group_size;
    const int in_group = min(p.heads_at_a_time, p.heads * p.batch - group * p.heads_at_a_time);
    const int flat_head = group * p.heads_at_a_time + index % in_group;
    const int row_block = p.row_blocks - 1 - index / in_group;  // long ones first
    head = flat_head % p.heads;
    batch = flat_head / p.heads;
    key_of_head = batch * p.key.batch + head / p.group * p.key.head;
    value_of_head = batch * p.value.batch + head / p.group * p.value.head;
    const int first_of_block = row_block * P::kRows;
    const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
    first_row = first_of_block + warp * P::kWarpRows;
    row = first_row + lane / 4;
    last_stage = (min(first_of_block + P::kRows, p.length) - 1) / P::kStageKeys;
    own_stage = first_row / P::kStageKeys;
    int first_key = p.window_size > 0 ? max(0, first_of_block - p.window_size + 1) : 0;
    if (p.first_tile != nullptr) {
      first_key = max(first_key, p.first_tile[std::int64_t{flat_head} * p.row_blocks + row_block] * kPortableTile.keys);
    }
    first_stage = first_key / P::kStageKeys;
    gate = p.gate == nullptr ? nullptr : p.gate + std::int64_t{flat_head} * p.length;
    reference_gate = gate == nullptr ? 0 : gate[min(first_row, p.length - 1)];
  }

  [[nodiscard]] __device__ std::int64_t flat_head() const { return std::int64_t{batch} * p.heads + head; }

  /// Starts copying keys, values and gates of a stage.
  __device__ void load_stage(int stage, std::uint32_t to) const {
    const int first = stage * P::kStageKeys;
    Rows::template load<P::kStageKeys, P::kThreads>(to, p.key, key_of_head, first, p.length, p.aligned);
    Rows::template load<P::kStageKeys, P::kThreads>(to + P::kTileBytes, p.value, value_of_head, first, p.length,
                                                    p.aligned);
    if (threadIdx.x < P::kStageKeys) {
      const auto* bias = static_cast<const uint4*>(p.bias) + flat_head() * p.bias_length + first + threadIdx.x;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to + 2 * P::kTileBytes + threadIdx.x * 16),
                   "l"(bias)
                   : "memory");
    }
  }

  __device__ void load_query() {
    const std::uint32_t place = ring + P::kBytes - P::kQueryBytes;
    const int first_of_block = first_row / P::kRows * P::kRows;
    Rows::template load<P::kRows, P::kThreads>(place, p.query, batch * p.query.batch + head * p.query.head,
                                               first_of_block, p.length, p.aligned);
    commit();
    wait<0>();
    __syncthreads();
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int x = 0; x < kSteps; ++x) {
        load_fragment(of_values(place + (first_row - first_of_block) * Rows::kRowBytes, 16 * part, x), query[part][x]);
      }
    }
    __syncthreads();
  }

  [[nodiscard]] __device__ float to_base2(double gate_difference) const {
    return static_cast<float>(gate_difference * kLog2E);
  }

  /// Base-2 gate between reference_gate and the last key of a stage's tile, which the slice is relative to.
  [[nodiscard]] __device__ float term_of(int stage) const {
    if (gate == nullptr) return 0;
    const int tile = max(stage, 0) * P::kStageKeys / kPortableTile.keys;
    return to_base2(reference_gate - gate[min((tile + 1) * kPortableTile.keys, p.length) - 1]);
  }

  /// Whether the slice says too little of the gate of the rows' own keys, or it is not a number.
  [[nodiscard]] __device__ bool falls_too_far() const {
    return first_row < p.length && !(term_of(own_stage) <= kMostSliceFall);
  }

  /// Logits of 16 keys.
  /// @tparam Gated  with the slice of the gate
  template <bool Gated>
  __device__ void multiply_keys(std::uint32_t stage_at, int group, Logits& logits) const {
#pragma unroll
    for (int x = 0; x < kSteps; ++x) {
      std::uint32_t keys[4];
      load_fragment(of_keys(stage_at, 16 * group, x), keys);
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
        if (x == 0) {
          multiply_first(logits[part][0], query[part][x], keys[0], keys[1]);
          multiply_first(logits[part][1], query[part][x], keys[2], keys[3]);
        } else {
          multiply(logits[part][0], query[part][x], keys[0], keys[1]);
          multiply(logits[part][1], query[part][x], keys[2], keys[3]);
        }
      }
    }
    // The gate comes last: every product before it would be rounded as its sum with the gate.
    if constexpr (Gated) {
      // Columns 0, 1, 2 of Q's slice are 1, the others 0.
      const std::uint32_t one = lane % 4 == 0 ? 0x3f803f80U : lane % 4 == 1 ? 0x3f80U : 0U;
      std::uint32_t bias[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(bias[0]), "=r"(bias[1])
                   : "r"(stage_at + 2 * P::kTileBytes + (16 * group + lane % 16) * 16)
                   : "memory");
#pragma unroll
      for (auto& part : logits) {
        multiply_eight(part[0], one, one, bias[0]);
        multiply_eight(part[1], one, one, bias[1]);
      }
    }
  }

  /// Removes what rows do not see of 16 keys.
  __device__ void mask(Logits& logits, int first_key) const {
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int distance = row + 16 * part + x / 2 * 8 - (first_key + 8 * eight + lane % 4 * 2 + x % 2);
          if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) logits[part][eight][x] = -INFINITY;
        }
      }
    }
  }

  /// Weights of 16 keys, and their sums.
  __device__ void weigh(const Logits& logits, const OfRows& shift, Weights& weights) {
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &logits[part][i / 2][i % 2 * 2];
        const float a = exp2_fast(fmaf(pair[0], p.scale_log2, shift[part][i % 2]));
        const float b = exp2_fast(fmaf(pair[1], p.scale_log2, shift[part][i % 2]));
        sum[part][i % 2] += a + b;
        weights[part][i] = pack(a, b);
      }
    }
  }

  __device__ void add_values(std::uint32_t stage_at, int group, const Weights& weights) {
#pragma unroll
    for (int x = 0; x < kSteps; ++x) {
      std::uint32_t values[4];
      load_transposed(of_values(stage_at + P::kTileBytes, 16 * group, x), values);
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
        multiply(output[part][2 * x], weights[part], values[0], values[1]);
        multiply(output[part][2 * x + 1], weights[part], values[2], values[3]);
      }
    }
  }

  /// The rows' own keys, which are visited first.
  __device__ void visit_own(std::uint32_t stage_at, int first_key, float term) {
    // Of a stage with more keys than the warp has rows, those after the rows are left out.
    const int groups = (first_row - first_key + P::kWarpRows) / 16;
    Logits logits[kGroups];
    OfRows top;
#pragma unroll
    for (auto& part : top) part[0] = part[1] = -INFINITY;
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      if (P::kWarpRows < P::kStageKeys && n >= groups) continue;
      multiply_keys<true>(stage_at, n, logits[n]);
      mask(logits[n], first_key + 16 * n);
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
        for (int x = 0; x < 8; ++x) {
          float& largest = top[part][x / 2 % 2];
          largest = fmaxf(largest, logits[n][part][x / 4][x % 4]);
        }
      }
    }
    OfRows shift;
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float largest = top[part][r];
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
        if (largest == -INFINITY) largest = 0;
        maximum[part][r] = largest * p.scale_log2 + term;
        shift[part][r] = term - maximum[part][r];
      }
    }
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      if (P::kWarpRows < P::kStageKeys && n >= groups) continue;
      Weights weights;
      weigh(logits[n], shift, weights);
      add_values(stage_at, n, weights);
    }
  }

  /// Keys before the rows' own.
  /// @tparam Masked  some rows do not see all of them
  template <bool Masked>
  __device__ void visit_before(std::uint32_t stage_at, int first_key, float term) {
    OfRows shift;
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      shift[part][0] = term - maximum[part][0];
      shift[part][1] = term - maximum[part][1];
    }
    Logits logits[2];
    if constexpr (kAhead) multiply_keys<true>(stage_at, 0, logits[0]);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      if constexpr (!kAhead) multiply_keys<true>(stage_at, n, logits[n % 2]);
      if (kAhead && n + 1 < kGroups) multiply_keys<true>(stage_at, n + 1, logits[(n + 1) % 2]);
      if constexpr (Masked) mask(logits[n % 2], first_key + 16 * n);
      Weights weights;
      weigh(logits[n % 2], shift, weights);
      add_values(stage_at, n, weights);
    }
  }

  /// Adds the gate entry by entry, relative to each row's own.
  __device__ void add_gates(Logits& logits, int first_key) const {
#pragma unroll 1
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int x = 0; x < 8; ++x) {
        const double own = gate[min(row + 16 * part + x / 2 % 2 * 8, p.length - 1)];
        const double of_key = gate[min(first_key + x / 4 * 8 + lane % 4 * 2 + x % 2, p.length - 1)];
        const auto difference = static_cast<float>((own - of_key) * p.gate_to_logit);
#pragma unroll
        for (int at = 0; at < P::kParts; ++at) {
          if (at == part) logits[at][x / 4][x % 4] += difference;
        }
      }
    }
  }

  /// Any keys, with a running maximum.
  __device__ void visit_online(std::uint32_t stage_at, int stage, float term) {
    const int first_key = stage * P::kStageKeys;
    const bool of_own_tile = first_key / kPortableTile.keys == first_row / kPortableTile.keys;
    const bool far = of_own_tile && !(term <= kMostSliceFall);
#pragma unroll 1
    for (int n = 0; n < kGroups; ++n) {
      Logits logits;
      if (far) {
        multiply_keys<false>(stage_at, n, logits);
        add_gates(logits, first_key + 16 * n);
      } else {
        multiply_keys<true>(stage_at, n, logits);
      }
      mask(logits, first_key + 16 * n);
      OfRows shift;
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float top = fmaxf(fmaxf(logits[part][0][2 * r], logits[part][0][2 * r + 1]),
                            fmaxf(logits[part][1][2 * r], logits[part][1][2 * r + 1]));
          top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 1));
          top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, 2));
          double lead = static_cast<double>(term);
          if (far) lead = (reference_gate - gate[min(row + 16 * part + 8 * r, p.length - 1)]) * kLog2E;
          const auto largest = static_cast<float>(static_cast<double>(top * p.scale_log2) + lead);
          const float next = fmaxf(maximum[part][r], largest);
          const float reference = next == -INFINITY ? 0.0F : next;  // of rows that have seen no key yet
          const float factor = exp2_fast(maximum[part][r] - reference);
          maximum[part][r] = next;
          shift[part][r] = static_cast<float>(lead - static_cast<double>(reference));
          sum[part][r] *= factor;
#pragma unroll
          for (int x = 0; x < 2 * kSteps; ++x) {
            output[part][x][2 * r] *= factor;
            output[part][x][2 * r + 1] *= factor;
          }
        }
      }
      Weights weights;
      weigh(logits, shift, weights);
      add_values(stage_at, n, weights);
    }
  }

  template <bool Online>
  __device__ void visit(std::uint32_t stage_at, int stage, float term) {
    if (stage > own_stage || first_row >= p.length) return;
    const int first_key = stage * P::kStageKeys;
    if constexpr (Online) {
      visit_online(stage_at, stage, term);
    } else if (stage == own_stage) {
      visit_own(stage_at, first_key, term);
    } else if (p.window_size > 0 && first_key <= first_row + P::kWarpRows - 1 - p.window_size) {
      visit_before<true>(stage_at, first_key, term);
    } else {
      visit_before<false>(stage_at, first_key, term);
    }
  }

  /// @tparam Online  with a running maximum
  template <bool Online>
  __device__ void attend() {
#pragma unroll
    for (auto& part : output) {
#pragma unroll
      for (auto& eight : part) eight[0] = eight[1] = eight[2] = eight[3] = 0;
    }
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      sum[part][0] = sum[part][1] = 0;
      maximum[part][0] = maximum[part][1] = -INFINITY;
    }
#pragma unroll
    for (int n = 0; n < P::kStages - 1; ++n) {
      if (last_stage - n >= first_stage) load_stage(last_stage - n, ring + n * P::kStageBytes);
      commit();
    }
    std::uint32_t at = ring;
    std::uint32_t free = ring + (P::kStages - 1) * P::kStageBytes;
    const auto advance = [&](std::uint32_t& slot) {
      slot += P::kStageBytes;
      if (slot == ring + P::kBytes) slot = ring;
    };
#pragma unroll 1
    for (int stage = last_stage; stage >= first_stage; --stage) {
      const int passed = last_stage - stage;
      if (passed % 32 == 0) terms = term_of(stage - lane);
      const float term = __shfl_sync(0xffffffffU, terms, passed % 32);
      wait<P::kStages - 2>();
      __syncthreads();  // the stage is there, and all are done with the one that the next copy overwrites
      if (stage - (P::kStages - 1) >= first_stage) load_stage(stage - (P::kStages - 1), free);
      commit();
      visit<Online>(at, stage, term);
      advance(at);
      advance(free);
    }
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (float& x : sum[part]) {
        x += __shfl_xor_sync(0xffffffffU, x, 1);
        x += __shfl_xor_sync(0xffffffffU, x, 2);
      }
    }
  }

  /// Whether a sum is too large or not a number.
  [[nodiscard]] __device__ bool overflows() const {
    bool any = false;
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) any |= row + 16 * part + 8 * r < p.length && !(sum[part][r] < kLargestSum);
    }
    return any;
  }

  __device__ void store() const {
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int at = row + 16 * part + 8 * r;
        const float inverse = 1.0F / sum[part][r];
        auto* to = static_cast<std::uint16_t*>(p.output.data) + batch * p.output.batch + head * p.output.head +
                   at * p.output.row;
        store_row<P::kHeadDim>(to, at < p.length, p.aligned, output[part], r, inverse);
        if (at < p.length && p.log_normalizer != nullptr && lane % 4 == 0) {
          const double rest = gate == nullptr ? 0 : gate[at] - reference_gate;
          p.log_normalizer[flat_head() * p.length + at] = static_cast<float>(
              (static_cast<double>(maximum[part][r]) + static_cast<double>(log2f(sum[part][r]))) * 0.6931471805599453 +
              rest);
        }
      }
    }
  }
};

template <class P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    attend_kernel(const __grid_constant__ AttentionParameters p) {
  extern __shared__ __align__(128) char memory[];
  AttentionWarp<P> own(p, memory);
  own.load_query();
  bool again = __syncthreads_or(own.falls_too_far()) != 0;
  if (!again) {
    own.template attend<false>();
    again = __syncthreads_or(own.overflows()) != 0;
  }
  if (again) own.template attend<true>();
  own.store();
}

template <class P>
cudaError_t launch_plan(AttentionParameters p, cudaStream_t stream) {
  // Half of the L2 cache for the keys and values of the heads that are computed at a time.
  const double head_bytes = 4.0 * p.length * P::kHeadDim / p.group + 16.0 * p.length;
  p.heads_at_a_time = std::clamp(static_cast<int>(p.cache_bytes / 2 / head_bytes), 1, p.heads * p.batch);
  auto* kernel = attend_kernel<P>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.items), P::kThreads, P::kBytes, stream>>>(p);
  return cudaGetLastError();
}

/// The first plan where there is room for it, else the second.
template <class P, class Small = P>
cudaError_t launch(const AttentionParameters& p, cudaStream_t stream) {
  static_assert(has_room<Small>(kLeastSharedBytes));
  return has_room<P>(p.shared_bytes) ? launch_plan<P>(p, stream) : launch_plan<Small>(p, stream);
}

}  // namespace foxscope::kernels::cuda::portable
