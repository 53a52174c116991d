// Queries, keys and values at the newest position of each sequence.
#include <cmath>

#include "kernels/cuda/attention/next/next_token.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/head_access.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/head_steps.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void next_rotations_kernel(const HeldSequence* sequences, int batch, int half, const double* frequencies,
                                      float2* table) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= batch * half) return;
  double sine = 0;
  double cosine = 0;
  sincos(static_cast<double>(sequences[i / half].position) * frequencies[i % half], &sine, &cosine);
  table[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
}

/// A block holds heads of one sequence.
template <bool Aligned, bool Rotates>
__global__ void __launch_bounds__(kThreads)
    project_next_kernel(const __grid_constant__ ProjectedHeads a, const HeldSequence* sequences, const int lanes) {
  const HeldSequence& sequence = sequences[blockIdx.x];
  if (sequence.rows == 0) return;
  const auto d = static_cast<int>(a.head_dim);
  const auto heads = static_cast<int>(a.heads);
  const auto key_heads = static_cast<int>(a.key_heads);
  const Place place(lanes, heads + 2 * key_heads, d);
  const Columns<Aligned, Rotates> columns(place, d);
  const std::int64_t row = blockIdx.x;
  const bool is_query = place.head < heads;
  const bool is_key = !is_query && place.head < heads + key_heads;
  const int index = is_query ? place.head : place.head - heads - (is_key ? 0 : key_heads);
  RawChunk<Bfloat16> raw;
  raw.clear();
  RawChunk<float> weight;
  weight.clear();
  const float* const norm = is_query ? a.query_norm : is_key ? a.key_norm : nullptr;
  if (place.inside) {
    columns.load(static_cast<const Bfloat16*>(a.projected) + row * a.projected_stride + place.head * d, raw);
    if (norm != nullptr) columns.load(norm + index * d, weight);
  }
  RowChunk x;
  raw.read(x);
  const float* const logits = is_query ? nullptr : is_key ? a.key_shift_logits : a.value_shift_logits;
  if (logits != nullptr && place.inside) {
    auto* const before = static_cast<Bfloat16*>(is_key ? sequence.key_before : sequence.value_before) + index * d;
    RawChunk<Bfloat16> raw_before;
    columns.load(before, raw_before);
    columns.store(before, x);
    RowChunk previous;
    raw_before.read(previous);
    const float share = sigmoid(logits[row * a.shift_stride + index]);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = fmaf(share, previous[i] - x[i], x[i]);
  }
  // Lanes exchange sums, so that a warp goes all together through what one of its heads needs.
  if (__any_sync(0xffffffffU, norm != nullptr) != 0) {
    const float factor = norm_factor(x, lanes, 1.0F / static_cast<float>(d), a.norm_epsilon);
    if (norm != nullptr) {
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] *= factor * weight.numbers[i];
    }
  }
  if (!place.inside) return;
  if (Rotates && (is_query || is_key)) {
    RawChunk<float> table;
    load_chunk<Aligned>(a.rotation + row * d + 2 * columns.low, 8, table);
    rotate(x, table);
  }
  if (is_query) {
    columns.store(static_cast<Bfloat16*>(a.query) + (row * heads + index) * d, x);
    return;
  }
  auto* const held = static_cast<Bfloat16*>(is_key ? sequence.key : sequence.value);
  columns.store(held + index * (is_key ? sequence.key_stride : sequence.value_stride) + (sequence.rows - 1) * d, x);
}

template <bool Aligned>
void launch(const ProjectedHeads& a, const HeldSequence* sequences, cudaStream_t stream) {
  const int lanes = lanes_of(a.head_dim);
  const dim3 grid = grid_of(a.rows, a.heads + 2 * a.key_heads, lanes, kThreads);
  if (a.rotation != nullptr) {
    project_next_kernel<Aligned, true><<<grid, kThreads, 0, stream>>>(a, sequences, lanes);
  } else {
    project_next_kernel<Aligned, false><<<grid, kThreads, 0, stream>>>(a, sequences, lanes);
  }
}

}  // namespace

Status next_rotations(const HeldSequence* sequences, std::int64_t batch, std::int64_t half, const double* frequencies,
                      float* table, Stream stream) {
  if (sequences == nullptr || batch < 1 || batch > 65535 || half < 1 || half > kMostHeadDim / 2 ||
      frequencies == nullptr || table == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto blocks = static_cast<unsigned>((batch * half + kThreads - 1) / kThreads);
  next_rotations_kernel<<<blocks, kThreads, 0, stream>>>(sequences, static_cast<int>(batch), static_cast<int>(half),
                                                         frequencies, reinterpret_cast<float2*>(table));
  return launched();
}

Status project_next_heads(const ProjectedHeads& a, const HeldSequence* sequences, Stream stream) {
  const bool shifts = a.key_shift_logits != nullptr || a.value_shift_logits != nullptr;
  if (!head_sizes_valid(a.rows, a.heads, a.head_dim) || a.rows > 65535 || a.key_heads < 1 ||
      a.heads % a.key_heads != 0 || sequences == nullptr || a.projected == nullptr || a.query == nullptr ||
      a.projected_type != ElementType::bfloat16 || a.projected_stride < (a.heads + 2 * a.key_heads) * a.head_dim ||
      (shifts && a.shift_stride < a.key_heads) || !(a.norm_epsilon >= 0) ||
      (a.rotation != nullptr && a.head_dim % 16 != 0)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  // Arrays of a sequence begin at multiples of 16 bytes: heads are multiples of eight numbers.
  const bool aligned = a.projected_stride % 8 == 0 && aligned_16(a.projected) && aligned_16(a.query_norm) &&
                       aligned_16(a.key_norm) && aligned_16(a.rotation) && aligned_16(a.query);
  aligned ? launch<true>(a, sequences, stream) : launch<false>(a, sequences, stream);
  return launched();
}

}  // namespace foxscope::kernels::cuda
