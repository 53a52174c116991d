// Attention of the newest position of each sequence over what it holds: a memory-bound sum, so keys are divided among
// many blocks, and the last of a head's to end puts their sums together, in their order. How they are divided depends
// on the sequence alone: its digits are the same whoever is beside it.
#include <cmath>

#include "kernels/cuda/attention/next/next_token.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/head_access.cuh"
#include "kernels/cuda/log_gate.cuh"
#include "kernels/cuda/log_sum.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kSplits = 32;          // blocks of a head, at most
constexpr std::int64_t kLeast = 64;  // keys of a block, but the last
constexpr int kAhead = 4;            // keys whose loads are under way together

/// The sums in the workspace: for each block of a head its largest logit (base 2), mass and weighted values, then for
/// each head how many blocks have ended.
struct Partial {
  float* numbers;
  unsigned* ended;
  int width;  ///< d + 2

  __device__ Partial(const NextAttention& a)
      : numbers(static_cast<float*>(a.workspace)),
        ended(reinterpret_cast<unsigned*>(numbers + a.batch * a.heads * kSplits * (a.head_dim + 2))),
        width(static_cast<int>(a.head_dim) + 2) {}
  __device__ float* of(std::int64_t head, int split) const { return numbers + (head * kSplits + split) * width; }
};

/// Softmax over some keys, as far as it is known.
struct Share {
  float maximum = -INFINITY;
  float mass = 0;
  RowChunk sum = {};

  __device__ __forceinline__ void add(float logit, const RowChunk& value) {
    const float now = fmaxf(maximum, logit);
    const float shrink = exp2_fast(maximum - now);
    const float weight = exp2_fast(logit - now);
    mass = fmaf(mass, shrink, weight);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = fmaf(sum[i], shrink, weight * value[i]);
    maximum = now;
  }
};

/// c of the newest position; the block that has its key writes it down.
__device__ double newest_gate(const NextAttention& a, const HeldSequence& sequence, int head, bool last) {
  double* const c = sequence.cumulative + head * sequence.gate_stride + sequence.rows - 1;
  const float* const logits = a.constant_logits != nullptr ? a.constant_logits
                              : a.gate_logits != nullptr   ? a.gate_logits + blockIdx.z * a.gate_stride
                                                           : nullptr;
  if (logits == nullptr) return *c;
  const double before = sequence.rows > 1 ? c[-1] : 0.0;
  const double newest = before + held(log_sigmoid(static_cast<double>(logits[head])));
  if (last) *c = newest;
  return newest;
}

/// @tparam Lanes  of a head, eight numbers each
template <int Lanes>
__global__ void __launch_bounds__(kThreads) next_attention_kernel(const __grid_constant__ NextAttention a) {
  constexpr int kGroups = kThreads / Lanes;
  __shared__ float sums[kThreads * 8];
  __shared__ float maxima[kGroups];
  __shared__ float masses[kGroups];
  __shared__ double newest;
  __shared__ bool is_last;
  const HeldSequence& sequence = a.sequences[blockIdx.z];
  const auto head = static_cast<int>(blockIdx.y);
  const auto split = static_cast<int>(blockIdx.x);
  const auto thread = static_cast<int>(threadIdx.x);
  const auto d = static_cast<int>(a.head_dim);
  const std::int64_t row = blockIdx.z * a.heads + head;
  auto* const output = static_cast<Bfloat16*>(a.output) + row * d;
  if (sequence.rows == 0) {
    for (int i = thread; split == 0 && i < d; i += kThreads) output[i] = __float2bfloat16_rn(0.0F);
    return;
  }
  const std::int64_t keys = sequence.rows - sequence.hidden_rows;
  const std::int64_t of_split = max(kLeast, (keys + kSplits * kLeast - 1) / (kSplits * kLeast) * kLeast);
  const auto splits = static_cast<int>((keys + of_split - 1) / of_split);
  if (split >= splits) return;
  const std::int64_t begin = sequence.hidden_rows + split * of_split;
  const std::int64_t end = min(begin + of_split, sequence.rows);

  const bool gated = sequence.cumulative != nullptr;
  if (gated) {
    if (thread == 0) newest = newest_gate(a, sequence, head, end == sequence.rows);
    __syncthreads();
  }
  const int group = thread / Lanes;
  const int column = thread % Lanes * 8;
  const bool inside = column < d;
  const std::int64_t key_head = head / (a.heads / a.key_heads);
  const auto* const key = static_cast<const Bfloat16*>(sequence.key) + key_head * sequence.key_stride + column;
  const auto* const value = static_cast<const Bfloat16*>(sequence.value) + key_head * sequence.value_stride + column;
  const double* const gate = gated ? sequence.cumulative + head * sequence.gate_stride : nullptr;
  RowChunk query;
  {
    RawChunk<Bfloat16> raw;
    raw.clear();
    if (inside) raw.load(static_cast<const Bfloat16*>(a.query) + row * d + column);
    raw.read(query);
    const float scale = a.scale * kLog2EFloat;
#pragma unroll
    for (float& x : query) x *= scale;
  }
  Share share;
  for (std::int64_t first = begin; first < end; first += kGroups * kAhead) {
    RawChunk<Bfloat16> keys_ahead[kAhead];
    RawChunk<Bfloat16> values_ahead[kAhead];
    float decay[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const std::int64_t j = first + n * kGroups + group;
      keys_ahead[n].clear();
      values_ahead[n].clear();
      decay[n] = 0;
      if (j >= end) continue;
      if (inside) {
        keys_ahead[n].load(key + j * d);
        values_ahead[n].load(value + j * d);
      }
      if (gated && j + 1 < sequence.rows) decay[n] = static_cast<float>(newest - gate[j]) * kLog2EFloat;
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      RowChunk x;
      keys_ahead[n].read(x);
      float product = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) product = fmaf(query[i], x[i], product);
      const float logit = sum_over_head(product, Lanes) + decay[n];
      if (first + n * kGroups + group >= end) continue;
      values_ahead[n].read(x);
      share.add(logit, x);
    }
  }
  // The groups of the block, in their order.
  if (thread % Lanes == 0) {
    maxima[group] = share.maximum;
    masses[group] = share.mass;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[group * Lanes * 8 + column + i] = share.sum[i];
  __syncthreads();
  float top = -INFINITY;
  for (int g = 0; g < kGroups; ++g) top = fmaxf(top, maxima[g]);
  const Partial partial(a);
  float* const own = partial.of(row, split);
  for (int i = thread; i < d + 1; i += kThreads) {
    float sum = 0;
    for (int g = 0; g < kGroups; ++g) {
      // A group without keys has no largest logit.
      const float factor = maxima[g] == -INFINITY ? 0.0F : exp2_fast(maxima[g] - top);
      const float part = i < d ? sums[g * Lanes * 8 + i] : masses[g];
      sum = fmaf(part, factor, sum);
    }
    own[i < d ? 2 + i : 1] = sum;
  }
  if (thread == 0) own[0] = top;
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    const unsigned before = atomicAdd(partial.ended + row, 1U);
    is_last = before + 1 == static_cast<unsigned>(splits);
    if (is_last) partial.ended[row] = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  top = -INFINITY;
  for (int s = 0; s < splits; ++s) top = fmaxf(top, __ldcg(partial.of(row, s)));
  for (int i = thread; i < d; i += kThreads) {
    float sum = 0;
    float mass = 0;
    for (int s = 0; s < splits; ++s) {
      const float* const other = partial.of(row, s);
      const float factor = exp2_fast(__ldcg(other) - top);
      sum = fmaf(__ldcg(other + 2 + i), factor, sum);
      mass = fmaf(__ldcg(other + 1), factor, mass);
    }
    output[i] = __float2bfloat16_rn(sum / mass);
  }
}

bool sizes_valid(std::int64_t batch, std::int64_t heads, std::int64_t head_dim) {
  return head_sizes_valid(batch, heads, head_dim) && batch <= 65535;
}

}  // namespace

std::size_t next_attention_workspace_bytes(std::int64_t batch, std::int64_t heads, std::int64_t head_dim) {
  if (!sizes_valid(batch, heads, head_dim)) return 0;
  return static_cast<std::size_t>(batch * heads * (kSplits * (head_dim + 2) + 1)) * sizeof(float);
}

Status next_attention(const NextAttention& a, Stream stream) {
  if (!sizes_valid(a.batch, a.heads, a.head_dim) || a.key_heads < 1 || a.heads % a.key_heads != 0 ||
      a.sequences == nullptr || a.query == nullptr || a.output == nullptr || a.workspace == nullptr ||
      !aligned_16(a.query) || (a.gate_logits != nullptr && a.gate_stride < a.heads) || !std::isfinite(a.scale)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const dim3 grid(kSplits, static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
  const auto launch = [&](auto kernel) { kernel<<<grid, kThreads, 0, stream>>>(a); };
  switch (lanes_of(a.head_dim)) {
    case 1:
      launch(next_attention_kernel<1>);
      break;
    case 2:
      launch(next_attention_kernel<2>);
      break;
    case 4:
      launch(next_attention_kernel<4>);
      break;
    case 8:
      launch(next_attention_kernel<8>);
      break;
    case 16:
      launch(next_attention_kernel<16>);
      break;
    default:
      launch(next_attention_kernel<32>);
      break;
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
