// The steps over heads: what enters attention and what leaves it. A thread goes down several rows, so that the row
// before is read once.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/head_access.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/head_steps.cuh"
#include "kernels/cuda/steps/steps.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;

/// The steps that a head of the projection goes through.
struct Path {
  const float* shift = nullptr;
  const float* norm = nullptr;
  Bfloat16* to = nullptr;  ///< at row 0
  std::int64_t to_stride = 0;
  bool shifts = false;
  bool rotates = false;

  __device__ Path(const ProjectedHeads& a, int head) {
    const auto d = static_cast<int>(a.head_dim);
    const auto heads = static_cast<int>(a.heads);
    const auto key_heads = static_cast<int>(a.key_heads);
    if (head < heads) {
      norm = a.query_norm == nullptr ? nullptr : a.query_norm + head * d;
      lie(a, a.query, heads, head, a.layout);
      rotates = a.rotation != nullptr;
      return;
    }
    const bool is_key = head < heads + key_heads;
    const int index = head - heads - (is_key ? 0 : key_heads);
    const float* logits = is_key ? a.key_shift_logits : a.value_shift_logits;
    shifts = logits != nullptr;
    shift = shifts ? logits + index : nullptr;
    norm = is_key && a.key_norm != nullptr ? a.key_norm + index * d : nullptr;
    lie(a, is_key ? a.key : a.value, key_heads, index, is_key ? a.layout : HeadLayout::rows_first);
    rotates = is_key && a.rotation != nullptr;
  }

 private:
  __device__ void lie(const ProjectedHeads& a, void* all, int heads, int head, HeadLayout layout) {
    const bool rows_first = layout == HeadLayout::rows_first;
    to = static_cast<Bfloat16*>(all) + head * a.head_dim * (rows_first ? 1 : a.rows);
    to_stride = rows_first ? heads * a.head_dim : a.head_dim;
  }
};

template <class T, bool Aligned, bool Rotates, int Rows>
__global__ void __launch_bounds__(kThreads)
    project_heads_kernel(const __grid_constant__ ProjectedHeads a, const int lanes) {
  const auto d = static_cast<int>(a.head_dim);
  const Place place(lanes, static_cast<int>(a.heads + 2 * a.key_heads), d);
  const Columns<Aligned, Rotates> columns(place, d);
  const Path path(a, place.head);
  const std::int64_t first = std::int64_t{blockIdx.x} * Rows;
  const T* from = static_cast<const T*>(a.projected) + place.head * d;
  RawChunk<T> raw[Rows];
  RawChunk<T> before;
  float logits[Rows];
  before.clear();
  // Rows from the start of a sequence on, of the first of this block.
  auto within = static_cast<int>(a.length > 0 ? first % a.length : first);
  const auto length = static_cast<int>(a.length > 0 ? a.length : a.rows);
  if (path.shifts && place.inside && within > 0) columns.load(from + (first - 1) * a.projected_stride, before);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    raw[r].clear();
    logits[r] = 0;
    if (!place.inside || first + r >= a.rows) continue;
    columns.load(from + (first + r) * a.projected_stride, raw[r]);
    if (path.shifts) logits[r] = path.shift[(first + r) * a.shift_stride];
  }
  RawChunk<float> weight;
  weight.clear();
  if (path.norm != nullptr && place.inside) columns.load(path.norm, weight);
  RowChunk previous;
  before.read(previous);
  const float inverse_head_dim = 1.0F / static_cast<float>(d);
  // Lanes exchange sums, so that a warp goes all together through what one of its heads needs.
  const bool some_norm = __any_sync(0xffffffffU, path.norm != nullptr) != 0;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    RowChunk now;
    RowChunk x;
    raw[r].read(now);
    if (within == length) {
      within = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) previous[i] = 0;
    }
    const float share = path.shifts ? sigmoid(logits[r]) : 0.0F;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = path.shifts ? fmaf(share, previous[i] - now[i], now[i]) : now[i];
    if (some_norm) {
      const float factor = norm_factor(x, lanes, inverse_head_dim, a.norm_epsilon);
      if (path.norm != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= factor * weight.numbers[i];
      }
    }
    if (place.inside && first + r < a.rows) {
      if (Rotates && path.rotates) {
        RawChunk<float> table;
        load_chunk<Aligned>(a.rotation + std::int64_t{within} * d + 2 * columns.low, 8, table);
        rotate(x, table);
      }
      columns.store(path.to + (first + r) * path.to_stride, x);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) previous[i] = now[i];
    ++within;
  }
}

template <class T, bool Aligned, int Rows>
__global__ void __launch_bounds__(kThreads) gate_output_kernel(const __grid_constant__ GatedOutput a, const int lanes) {
  const auto d = static_cast<int>(a.head_dim);
  const Place place(lanes, static_cast<int>(a.heads), d);
  const std::int64_t first = std::int64_t{blockIdx.x} * Rows;
  const int column = place.head * d + place.column;
  const std::int64_t width = a.heads * d;
  RawChunk<Bfloat16> attended[Rows];
  RawChunk<T> gate[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    attended[r].clear();
    gate[r].clear();
    if (!place.inside || first + r >= a.rows) continue;
    load_chunk<Aligned>(static_cast<const Bfloat16*>(a.attended) + (first + r) * width + column, 8, attended[r]);
    if (a.gate != nullptr) {
      load_chunk<Aligned>(static_cast<const T*>(a.gate) + (first + r) * a.gate_stride + column, 8, gate[r]);
    }
  }
  RawChunk<float> weight;
  weight.clear();
  if (a.norm != nullptr && place.inside) load_chunk<Aligned>(a.norm + column, 8, weight);
  const float inverse_head_dim = 1.0F / static_cast<float>(d);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    RowChunk x;
    attended[r].read(x);
    if (a.norm != nullptr) {
      const float factor = norm_factor(x, lanes, inverse_head_dim, a.norm_epsilon);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] *= factor * weight.numbers[i];
    }
    if (a.gate != nullptr) {
      RowChunk logit;
      gate[r].read(logit);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i] *= (a.activation == OutputGateActivation::silu ? logit[i] : 1.0F) * sigmoid(logit[i]);
      }
    }
    if (place.inside && first + r < a.rows) {
      store_chunk<Aligned>(static_cast<Bfloat16*>(a.output) + (first + r) * width + column, 8, x);
    }
  }
}

__global__ void rotary_table_kernel(std::int64_t first_position, std::int64_t rows, int half, const double* frequencies,
                                    float2* table) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows * half) return;
  const auto position = static_cast<double>(first_position + i / half);
  double sine = 0;
  double cosine = 0;
  sincos(position * frequencies[i % half], &sine, &cosine);
  table[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
}

template <class T, bool Aligned, bool Rotates>
void launch_project_heads(const ProjectedHeads& a, cudaStream_t stream) {
  constexpr int kRows = sizeof(T) == 4 ? 8 : 4;
  const int lanes = lanes_of(a.head_dim);
  const dim3 grid = grid_of((a.rows + kRows - 1) / kRows, a.heads + 2 * a.key_heads, lanes, kThreads);
  project_heads_kernel<T, Aligned, Rotates, kRows><<<grid, kThreads, 0, stream>>>(a, lanes);
}

template <class T>
void launch_project_heads(const ProjectedHeads& a, cudaStream_t stream) {
  bool aligned = a.projected_stride % 8 == 0;
  for (const void* data : {a.projected, static_cast<const void*>(a.query_norm), static_cast<const void*>(a.key_norm),
                           static_cast<const void*>(a.rotation), static_cast<const void*>(a.query),
                           static_cast<const void*>(a.key), static_cast<const void*>(a.value)}) {
    aligned = aligned && aligned_16(data);
  }
  const bool rotates = a.rotation != nullptr;
  if (aligned) {
    rotates ? launch_project_heads<T, true, true>(a, stream) : launch_project_heads<T, true, false>(a, stream);
  } else {
    rotates ? launch_project_heads<T, false, true>(a, stream) : launch_project_heads<T, false, false>(a, stream);
  }
}

template <class T>
void launch_gate_output(const GatedOutput& a, cudaStream_t stream) {
  constexpr int kRows = 4;
  const int lanes = lanes_of(a.head_dim);
  const dim3 grid = grid_of((a.rows + kRows - 1) / kRows, a.heads, lanes, kThreads);
  const bool aligned = aligned_16(a.attended) && aligned_16(a.norm) && aligned_16(a.gate) && aligned_16(a.output) &&
                       (a.gate == nullptr || a.gate_stride % 8 == 0);
  if (aligned) {
    gate_output_kernel<T, true, kRows><<<grid, kThreads, 0, stream>>>(a, lanes);
  } else {
    gate_output_kernel<T, false, kRows><<<grid, kThreads, 0, stream>>>(a, lanes);
  }
}

}  // namespace

Status project_heads(const ProjectedHeads& a, Stream stream) {
  if (!head_sizes_valid(a.rows, a.heads, a.head_dim) || a.key_heads < 1 || a.heads % a.key_heads != 0) {
    return Status::invalid_argument;
  }
  if (a.projected == nullptr || a.query == nullptr || a.key == nullptr || a.value == nullptr) {
    return Status::invalid_argument;
  }
  const bool shifts = a.key_shift_logits != nullptr || a.value_shift_logits != nullptr;
  if (a.projected_stride < (a.heads + 2 * a.key_heads) * a.head_dim || (shifts && a.shift_stride < a.key_heads) ||
      !(a.norm_epsilon >= 0) || (a.rotation != nullptr && a.head_dim % 16 != 0) || a.length < 0 ||
      (a.length > 0 && a.rows % a.length != 0) ||
      (a.length > 0 && a.rows > a.length && a.layout == HeadLayout::heads_first)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  a.projected_type == ElementType::float32 ? launch_project_heads<float>(a, stream)
                                           : launch_project_heads<Bfloat16>(a, stream);
  return launched();
}

Status rotary_table(std::int64_t first_position, std::int64_t rows, std::int64_t half, const double* frequencies,
                    float* table, Stream stream) {
  if (first_position < 0 || rows < 1 || rows > kMostRows || half < 1 || half > kMostHeadDim / 2 ||
      frequencies == nullptr || table == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const auto blocks = static_cast<unsigned>((rows * half + kThreads - 1) / kThreads);
  rotary_table_kernel<<<blocks, kThreads, 0, stream>>>(first_position, rows, static_cast<int>(half), frequencies,
                                                       reinterpret_cast<float2*>(table));
  return launched();
}

Status gate_output(const GatedOutput& a, Stream stream) {
  if (!head_sizes_valid(a.rows, a.heads, a.head_dim)) return Status::invalid_argument;
  if (a.attended == nullptr || a.output == nullptr || !(a.norm_epsilon >= 0)) return Status::invalid_argument;
  if (a.gate != nullptr && a.gate_stride < a.heads * a.head_dim) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  a.gate_type == ElementType::float32 ? launch_gate_output<float>(a, stream) : launch_gate_output<Bfloat16>(a, stream);
  return launched();
}

}  // namespace foxscope::kernels::cuda
