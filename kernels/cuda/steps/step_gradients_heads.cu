// Gradients of the steps over heads. A thread goes up several rows, from the last to the first, so that what the shift
// passes from a row to the one before it stays in registers, as do its sums for the norms' weights.
#include <cmath>

#include "kernels/cuda/attention/gradient_sums.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/head_access.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/step_gradients.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsAtOnce = 2;

/// A row of a sequence.
struct SequenceRow {
  std::int64_t row = 0;  ///< of all
  std::int64_t sequence = 0;
  int within = 0;  ///< of its sequence
  int length = 0;

  __device__ SequenceRow(std::int64_t index, std::int64_t rows_of_sequence, std::int64_t rows)
      : row(index), length(static_cast<int>(rows_of_sequence > 0 ? rows_of_sequence : rows)) {
    sequence = row / length;
    within = static_cast<int>(row - sequence * length);
  }
  __device__ __forceinline__ void go_back() {
    --row;
    --within;
    if (within >= 0) return;
    within = length - 1;
    --sequence;
  }
};

/// The steps that a head of the projection went through, and where its gradients lie.
struct GradientPath {
  const Bfloat16* from = nullptr;  ///< gradient of query, key or value
  std::int64_t batch_stride = 0;
  std::int64_t row_stride = 0;
  const float* shift = nullptr;
  float* shift_gradient = nullptr;
  const float* norm = nullptr;
  bool rotates = false;

  __device__ GradientPath(const ProjectedHeadsGradient& a, int head) {
    const auto d = static_cast<int>(a.head_dim);
    const auto heads = static_cast<int>(a.heads);
    const auto key_heads = static_cast<int>(a.key_heads);
    if (head < heads) {
      lie(a.query_gradient, a.query_strides, head);
      norm = a.query_norm == nullptr ? nullptr : a.query_norm + head * d;
      rotates = a.rotation != nullptr;
      return;
    }
    const bool is_key = head < heads + key_heads;
    const int index = head - heads - (is_key ? 0 : key_heads);
    lie(is_key ? a.key_gradient : a.value_gradient, is_key ? a.key_strides : a.value_strides, index);
    const float* logits = is_key ? a.key_shift_logits : a.value_shift_logits;
    shift = logits == nullptr ? nullptr : logits + index;
    shift_gradient = (is_key ? a.key_shift_gradient : a.value_shift_gradient) + index;
    norm = is_key && a.key_norm != nullptr ? a.key_norm + index * d : nullptr;
    rotates = is_key && a.rotation != nullptr;
  }

  [[nodiscard]] __device__ __forceinline__ const Bfloat16* at(const SequenceRow& row) const {
    return from + row.sequence * batch_stride + row.within * row_stride;
  }

 private:
  __device__ void lie(const void* all, const AttentionStrides& strides, int head) {
    from = static_cast<const Bfloat16*>(all) + head * strides.head;
    batch_stride = strides.batch;
    row_stride = strides.row;
  }
};

/// Turns four pairs by the negative angle.
__device__ __forceinline__ void rotate_backward(RowChunk& x, const RawChunk<float>& table) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float cosine = table.numbers[2 * i];
    const float sine = table.numbers[2 * i + 1];
    const float low = x[i];
    x[i] = low * cosine + x[4 + i] * sine;
    x[4 + i] = x[4 + i] * cosine - low * sine;
  }
}

/// Back through a head's RMSNorm.
/// @param x        what was normalised; becomes x / rms(x)
/// @param dy       gradient of the normed head; becomes that of x
/// @param normed   false: nothing is changed, the lanes exchange sums all the same
__device__ __forceinline__ void norm_backward(RowChunk& x, RowChunk& dy, const RowChunk& weight, bool normed, int lanes,
                                              float inverse_head_dim, float epsilon) {
  float squares = 0;
  float products = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    squares += x[i] * x[i];
    products += dy[i] * weight[i] * x[i];
  }
  squares = sum_over_head(squares, lanes);
  products = sum_over_head(products, lanes);
  if (!normed) return;
  const float factor = rsqrtf(squares * inverse_head_dim + epsilon);
  const float back = factor * factor * (products * inverse_head_dim);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] *= factor;
    dy[i] = factor * (dy[i] * weight[i]) - back * x[i];
  }
}

/// A lane on its way up the rows, back through rotation, norm and shift.
template <bool Aligned, bool Rotates>
struct HeadsBackward {
  const ProjectedHeadsGradient& a;
  const GradientPath& path;
  const Columns<Aligned, Rotates>& columns;
  Bfloat16* to;  ///< gradient of the projection, of the head's row 0
  int lanes;
  bool inside;
  bool some_norm;   ///< in this warp, whose lanes exchange sums
  bool some_shift;  ///< likewise
  RawChunk<float> weight;
  RowChunk later = {};        ///< a_(t+1) ds_(t+1)
  RowChunk weight_sums = {};  ///< of the norm

  /// @param gradient  of what left at this row
  /// @param now       y_t
  /// @param earlier   y_(t-1), zeros where there is none
  /// @param kept      whether the row is this thread's; the one after its last only passes something to it
  __device__ __forceinline__ void row(const SequenceRow& at, const RawChunk<Bfloat16>& gradient,
                                      const RawChunk<Bfloat16>& now, const RawChunk<Bfloat16>& earlier, float logit,
                                      bool kept) {
    RowChunk x;
    RowChunk change;
    RowChunk dy;
    now.read(x);
    earlier.read(change);
    gradient.read(dy);
    const float share = path.shift != nullptr ? sigmoid(logit) : 0.0F;
    const float rest = path.shift != nullptr ? sigmoid(-logit) : 1.0F;
    if (Rotates && path.rotates && inside) {
      RawChunk<float> table;
      load_chunk<Aligned>(a.rotation + at.within * a.head_dim + 2 * columns.low, 8, table);
      rotate_backward(dy, table);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      change[i] -= x[i];
      x[i] = path.shift != nullptr ? fmaf(share, change[i], x[i]) : x[i];
    }
    if (some_norm) {
      RowChunk grad_normed;
#pragma unroll
      for (int i = 0; i < 8; ++i) grad_normed[i] = dy[i];
      norm_backward(x, dy, weight.numbers, path.norm != nullptr, lanes, 1.0F / static_cast<float>(a.head_dim),
                    a.norm_epsilon);
#pragma unroll
      for (int i = 0; i < 8; ++i) weight_sums[i] += kept ? grad_normed[i] * x[i] : 0.0F;
    }
    if (some_shift) {
      float products = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) products += dy[i] * change[i];
      products = sum_over_head(products, lanes);
      if (path.shift != nullptr && kept && inside && static_cast<int>(threadIdx.x) % lanes == 0) {
        path.shift_gradient[at.row * a.shift_gradient_stride] = share * rest * products;
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) later[i] += rest * dy[i];
    if (kept && inside) columns.store(to + at.row * a.projected_gradient_stride, later);
#pragma unroll
    for (int i = 0; i < 8; ++i) later[i] = at.within > 0 ? share * dy[i] : 0.0F;
  }
};

template <bool Aligned, bool Rotates>
__global__ void __launch_bounds__(kThreads)
    project_heads_gradient_kernel(const __grid_constant__ ProjectedHeadsGradient a, const int lanes,
                                  const int rows_of_block) {
  const auto d = static_cast<int>(a.head_dim);
  const Place place(lanes, static_cast<int>(a.heads + 2 * a.key_heads), d);
  const Columns<Aligned, Rotates> columns(place, d);
  const GradientPath path(a, place.head);
  const Bfloat16* input = static_cast<const Bfloat16*>(a.projected) + place.head * d;
  HeadsBackward<Aligned, Rotates> backward = {.a = a,
                                              .path = path,
                                              .columns = columns,
                                              .to = static_cast<Bfloat16*>(a.projected_gradient) + place.head * d,
                                              .lanes = lanes,
                                              .inside = place.inside,
                                              .some_norm = __any_sync(0xffffffffU, path.norm != nullptr) != 0,
                                              .some_shift = __any_sync(0xffffffffU, path.shift != nullptr) != 0};
  backward.weight.clear();
  if (path.norm != nullptr && place.inside) columns.load(path.norm, backward.weight);
  const bool reads = place.inside && (path.norm != nullptr || path.shift != nullptr);
  const std::int64_t begin = std::int64_t{blockIdx.x} * rows_of_block;
  const std::int64_t end = min(begin + rows_of_block, a.rows);
  SequenceRow at(end - 1, a.length, a.rows);
  RawChunk<Bfloat16> now;
  RawChunk<Bfloat16> none;
  now.clear();
  none.clear();
  if (reads) columns.load(input + at.row * a.projected_stride, now);
  if (backward.some_shift && end < a.rows && at.within + 1 < at.length) {
    SequenceRow next = at;
    ++next.row, ++next.within;
    RawChunk<Bfloat16> gradient = none;
    RawChunk<Bfloat16> input_of_next = none;
    if (place.inside && path.shift != nullptr) {
      columns.load(path.at(next), gradient);
      columns.load(input + next.row * a.projected_stride, input_of_next);
    }
    const float logit = path.shift != nullptr ? path.shift[next.row * a.shift_stride] : 0.0F;
    backward.row(next, gradient, input_of_next, now, logit, false);
  }
  SequenceRow ahead = at;
  while (at.row >= begin) {
    RawChunk<Bfloat16> gradient[kRowsAtOnce];
    RawChunk<Bfloat16> earlier[kRowsAtOnce];
    float logits[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r, ahead.go_back()) {
      gradient[r] = earlier[r] = none;
      logits[r] = 0;
      if (!place.inside || ahead.row < begin) continue;
      columns.load(path.at(ahead), gradient[r]);
      if (path.shift != nullptr) logits[r] = path.shift[ahead.row * a.shift_stride];
      // The row before, which is the next to come or was brought here by the shift.
      const bool needed = ahead.row > begin || (path.shift != nullptr && ahead.within > 0);
      if (reads && needed) columns.load(input + (ahead.row - 1) * a.projected_stride, earlier[r]);
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r, at.go_back()) {
      if (at.row < begin) break;
      backward.row(at, gradient[r], now, at.within > 0 ? earlier[r] : none, logits[r], true);
      now = earlier[r];
    }
  }
  if (a.workspace == nullptr || !place.inside || place.head >= a.heads + a.key_heads) return;
  float* sums = static_cast<float*>(a.workspace) + std::int64_t{blockIdx.x} * (a.heads + a.key_heads) * d;
  columns.store(sums + place.head * d, backward.weight_sums);
}

/// Activation of the gate's logit, and its derivative.
__device__ __forceinline__ void activate(OutputGateActivation activation, float z, float& value, float& slope) {
  const float s = sigmoid(z);
  const float rest = sigmoid(-z);
  value = activation == OutputGateActivation::silu ? z * s : s;
  slope = activation == OutputGateActivation::silu ? s + z * s * rest : s * rest;
}

template <bool Aligned>
__global__ void __launch_bounds__(kThreads) gate_output_gradient_kernel(const __grid_constant__ GatedOutputGradient a,
                                                                        const int lanes, const int rows_of_block) {
  const auto d = static_cast<int>(a.head_dim);
  const Place place(lanes, static_cast<int>(a.heads), d);
  const int column = place.head * d + place.column;
  const std::int64_t width = a.heads * d;
  RawChunk<float> weight;
  weight.clear();
  if (a.norm != nullptr && place.inside) load_chunk<Aligned>(a.norm + column, 8, weight);
  RowChunk weight_sums = {};
  const std::int64_t begin = std::int64_t{blockIdx.x} * rows_of_block;
  const std::int64_t end = min(begin + rows_of_block, a.rows);
  for (std::int64_t first = begin; first < end; first += kRowsAtOnce) {
    RawChunk<Bfloat16> attended[kRowsAtOnce];
    RawChunk<Bfloat16> gradient[kRowsAtOnce];
    RawChunk<Bfloat16> gate[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      attended[r].clear();
      gradient[r].clear();
      gate[r].clear();
      if (!place.inside || first + r >= end) continue;
      const std::int64_t at = (first + r) * width + column;
      load_chunk<Aligned>(static_cast<const Bfloat16*>(a.attended) + at, 8, attended[r]);
      load_chunk<Aligned>(static_cast<const Bfloat16*>(a.output_gradient) + at, 8, gradient[r]);
      if (a.gate == nullptr) continue;
      load_chunk<Aligned>(static_cast<const Bfloat16*>(a.gate) + (first + r) * a.gate_stride + column, 8, gate[r]);
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      if (first + r >= end) break;
      RowChunk x;
      RowChunk dy;
      RowChunk dz;
      attended[r].read(x);
      gradient[r].read(dy);
      if (a.gate != nullptr) {
        RowChunk z;
        gate[r].read(z);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float value;
          activate(a.activation, z[i], value, dz[i]);
          dz[i] *= dy[i];
          dy[i] *= value;
        }
      }
      RowChunk dx;
#pragma unroll
      for (int i = 0; i < 8; ++i) dx[i] = dy[i];
      if (a.norm != nullptr) {
        norm_backward(x, dx, weight.numbers, true, lanes, 1.0F / static_cast<float>(d), a.norm_epsilon);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          weight_sums[i] += dy[i] * x[i];
          x[i] *= weight.numbers[i];
        }
      }
      if (!place.inside) continue;
      store_chunk<Aligned>(static_cast<Bfloat16*>(a.attended_gradient) + (first + r) * width + column, 8, dx);
      if (a.gate == nullptr) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) dz[i] *= x[i];
      store_chunk<Aligned>(static_cast<Bfloat16*>(a.gate_gradient) + (first + r) * a.gate_gradient_stride + column, 8,
                           dz);
    }
  }
  if (a.norm_gradient == nullptr || !place.inside) return;
  store_chunk<Aligned>(static_cast<float*>(a.workspace) + std::int64_t{blockIdx.x} * width + column, 8, weight_sums);
}

bool wants_norms(const ProjectedHeadsGradient& a) {
  return (a.query_norm != nullptr && a.query_norm_gradient != nullptr) ||
         (a.key_norm != nullptr && a.key_norm_gradient != nullptr);
}
bool wants_norms(const GatedOutputGradient& a) { return a.norm != nullptr && a.norm_gradient != nullptr; }

bool heads_valid(const ProjectedHeadsGradient& a) {
  return head_sizes_valid(a.rows, a.heads, a.head_dim) && a.key_heads >= 1 && a.heads % a.key_heads == 0;
}

bool pointers_valid(const ProjectedHeadsGradient& a) {
  for (const void* data : {a.projected, a.query_gradient, a.key_gradient, a.value_gradient,
                           static_cast<const void*>(a.projected_gradient)}) {
    if (data == nullptr) return false;
  }
  return (a.key_shift_logits == nullptr || a.key_shift_gradient != nullptr) &&
         (a.value_shift_logits == nullptr || a.value_shift_gradient != nullptr) &&
         (!wants_norms(a) || a.workspace != nullptr);
}

bool strides_valid(const ProjectedHeadsGradient& a) {
  const std::int64_t width = (a.heads + 2 * a.key_heads) * a.head_dim;
  const bool shifts = a.key_shift_logits != nullptr || a.value_shift_logits != nullptr;
  for (const AttentionStrides& strides : {a.query_strides, a.key_strides, a.value_strides}) {
    if (strides.row < a.head_dim || strides.head < 0 || strides.batch < 0) return false;
  }
  return a.projected_stride >= width && a.projected_gradient_stride >= width &&
         (!shifts || (a.shift_stride >= a.key_heads && a.shift_gradient_stride >= a.key_heads)) && a.length >= 0 &&
         (a.length == 0 || a.rows % a.length == 0);
}

bool can_be_aligned(const ProjectedHeadsGradient& a) {
  bool aligned = a.projected_stride % 8 == 0 && a.projected_gradient_stride % 8 == 0;
  for (const AttentionStrides& strides : {a.query_strides, a.key_strides, a.value_strides}) {
    aligned = aligned && strides.batch % 8 == 0 && strides.head % 8 == 0 && strides.row % 8 == 0;
  }
  for (const void* data :
       {a.projected, a.query_gradient, a.key_gradient, a.value_gradient, static_cast<const void*>(a.query_norm),
        static_cast<const void*>(a.key_norm), static_cast<const void*>(a.rotation),
        static_cast<const void*>(a.projected_gradient), static_cast<const void*>(a.workspace)}) {
    aligned = aligned && aligned_16(data);
  }
  return aligned;
}

template <bool Aligned>
void launch_heads(const ProjectedHeadsGradient& a, const SummedRows& blocks, cudaStream_t stream) {
  const int lanes = lanes_of(a.head_dim);
  const dim3 grid = grid_of(blocks.count, a.heads + 2 * a.key_heads, lanes, kThreads);
  const auto rows_of_block = static_cast<int>(blocks.rows_of_block);
  if (a.rotation != nullptr) {
    project_heads_gradient_kernel<Aligned, true><<<grid, kThreads, 0, stream>>>(a, lanes, rows_of_block);
  } else {
    project_heads_gradient_kernel<Aligned, false><<<grid, kThreads, 0, stream>>>(a, lanes, rows_of_block);
  }
}

}  // namespace

std::size_t workspace_bytes(const ProjectedHeadsGradient& a) {
  if (!wants_norms(a) || !heads_valid(a)) return 0;
  return SummedRows(a.rows, kRowsAtOnce).sum_bytes((a.heads + a.key_heads) * a.head_dim);
}

Status project_heads_gradient(const ProjectedHeadsGradient& arguments, Stream stream) {
  ProjectedHeadsGradient a = arguments;
  if (!heads_valid(a) || !pointers_valid(a) || !strides_valid(a) || !(a.norm_epsilon >= 0) ||
      (a.rotation != nullptr && a.head_dim % 16 != 0)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  if (!wants_norms(a)) a.workspace = nullptr;
  const SummedRows blocks(a.rows, kRowsAtOnce);
  can_be_aligned(a) ? launch_heads<true>(a, blocks, stream) : launch_heads<false>(a, blocks, stream);
  if (wants_norms(a)) {
    const std::int64_t queries = a.heads * a.head_dim;
    const std::int64_t keys = a.key_heads * a.head_dim;
    const auto* sums = static_cast<const float*>(a.workspace);
    if (a.query_norm != nullptr && a.query_norm_gradient != nullptr) {
      add_sums(sums, blocks.count, queries + keys, queries, a.query_norm_gradient, stream);
    }
    if (a.key_norm != nullptr && a.key_norm_gradient != nullptr) {
      add_sums(sums + queries, blocks.count, queries + keys, keys, a.key_norm_gradient, stream);
    }
  }
  return launched();
}

std::size_t workspace_bytes(const GatedOutputGradient& a) {
  if (!wants_norms(a) || !head_sizes_valid(a.rows, a.heads, a.head_dim)) return 0;
  return SummedRows(a.rows, kRowsAtOnce).sum_bytes(a.heads * a.head_dim);
}

Status gate_output_gradient(const GatedOutputGradient& arguments, Stream stream) {
  GatedOutputGradient a = arguments;
  if (!wants_norms(a)) a.norm_gradient = nullptr;
  if (!head_sizes_valid(a.rows, a.heads, a.head_dim) || !(a.norm_epsilon >= 0)) return Status::invalid_argument;
  if (a.attended == nullptr || a.output_gradient == nullptr || a.attended_gradient == nullptr ||
      (a.norm_gradient != nullptr && a.workspace == nullptr)) {
    return Status::invalid_argument;
  }
  const std::int64_t width = a.heads * a.head_dim;
  const bool gated = a.gate != nullptr;
  if (gated && (a.gate_gradient == nullptr || a.gate_stride < width || a.gate_gradient_stride < width ||
                (a.gate_gradient == a.gate && a.gate_gradient_stride != a.gate_stride))) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const SummedRows blocks(a.rows, kRowsAtOnce);
  const int lanes = lanes_of(a.head_dim);
  const dim3 grid = grid_of(blocks.count, a.heads, lanes, kThreads);
  const auto rows_of_block = static_cast<int>(blocks.rows_of_block);
  const bool aligned = aligned_16(a.attended) && aligned_16(a.norm) && aligned_16(a.output_gradient) &&
                       aligned_16(a.attended_gradient) && aligned_16(a.workspace) &&
                       (!gated || (aligned_16(a.gate) && aligned_16(a.gate_gradient) && a.gate_stride % 8 == 0 &&
                                   a.gate_gradient_stride % 8 == 0));
  if (aligned) {
    gate_output_gradient_kernel<true><<<grid, kThreads, 0, stream>>>(a, lanes, rows_of_block);
  } else {
    gate_output_gradient_kernel<false><<<grid, kThreads, 0, stream>>>(a, lanes, rows_of_block);
  }
  if (a.norm_gradient != nullptr) {
    add_sums(static_cast<const float*>(a.workspace), blocks.count, width, width, a.norm_gradient, stream);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
