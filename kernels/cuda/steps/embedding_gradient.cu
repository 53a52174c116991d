// Gradient of the embedding table. Rows are sorted by id, in their order within an id, and summed in segments of equal
// length, so that a frequent id is no single block's work. A segment's part of an id that goes on before or after it
// stays in the workspace, and the segment where the id began adds it up.
#include <bit>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/steps/step_gradients.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 4;         // of a thread
constexpr int kRowsOfSegment = 16;  // of sorted rows
constexpr int kRowsAtOnce = 8;
constexpr std::int64_t kMost = std::int64_t{1} << 30;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;

std::int64_t segments_of(std::int64_t rows) { return (rows + kRowsOfSegment - 1) / kRowsOfSegment; }

/// The workspace's parts, one after the other.
struct Workspace {
  std::int32_t* ids = nullptr;  ///< [n], V where the id is outside [0, V)
  std::int32_t* sorted_ids = nullptr;
  std::int32_t* rows = nullptr;  ///< [n]
  std::int32_t* sorted_rows = nullptr;
  float* sums = nullptr;  ///< [segments, 2, D]: of the id that began before, of the id that goes on after
  void* sorting = nullptr;
  std::size_t sorting_bytes = 0;
  std::size_t bytes = 0;

  /// @param start  null, to learn the size
  Workspace(const EmbeddingGradient& a, void* start) : start_(static_cast<std::byte*>(start)) {
    const auto numbers = static_cast<std::size_t>(a.rows) * sizeof(std::int32_t);
    ids = static_cast<std::int32_t*>(take(numbers));
    sorted_ids = static_cast<std::int32_t*>(take(numbers));
    rows = static_cast<std::int32_t*>(take(numbers));
    sorted_rows = static_cast<std::int32_t*>(take(numbers));
    sums = static_cast<float*>(take(static_cast<std::size_t>(segments_of(a.rows) * 2 * a.width) * sizeof(float)));
    valid_ = succeeded(sort(a, nullptr, sorting_bytes, nullptr));
    sorting = take(sorting_bytes);
  }
  [[nodiscard]] bool valid() const { return valid_; }

  /// Stable. @param temporary  null: the bytes that it takes are written to `temporary_bytes`
  cudaError_t sort(const EmbeddingGradient& a, void* temporary, std::size_t& temporary_bytes,
                   cudaStream_t stream) const {
    const int bits = std::bit_width(static_cast<std::uint32_t>(a.vocabulary));
    return cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, ids, sorted_ids, rows, sorted_rows,
                                           static_cast<int>(a.rows), 0, bits, stream);
  }

 private:
  void* take(std::size_t more) {
    void* at = start_ == nullptr ? nullptr : start_ + bytes;
    bytes += (more + 255) / 256 * 256;
    return at;
  }
  std::byte* start_;
  bool valid_ = false;
};

__global__ void __launch_bounds__(kThreads)
    number_rows_kernel(const __grid_constant__ EmbeddingGradient a, std::int32_t* ids, std::int32_t* rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= a.rows) return;
  const std::int32_t id = a.ids[i];
  ids[i] = id >= 0 && id < a.vocabulary ? id : static_cast<std::int32_t>(a.vocabulary);
  rows[i] = static_cast<std::int32_t>(i);
}

using Four = float[kColumns];

template <bool Aligned>
__device__ __forceinline__ void load_four(const float* from, int count, Four& x) {
  if constexpr (Aligned) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x[i] = i < count ? from[i] : 0.0F;
  }
}

template <bool Aligned>
__device__ __forceinline__ void store_four(float* to, int count, const Four& x) {
  if constexpr (Aligned) {
    *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (i < count) to[i] = x[i];
    }
  }
}

__device__ __forceinline__ void add_four(Four& sum, const Four& x) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i) sum[i] += x[i];
}

template <bool Aligned>
__device__ __forceinline__ void add_to_table(const EmbeddingGradient& a, int id, int column, const Four& sum) {
  float* to = a.table_gradient + id * a.width + column;
  const int count = static_cast<int>(a.width) - column;
  Four x;
  load_four<Aligned>(to, count, x);
  add_four(x, sum);
  store_four<Aligned>(to, count, x);
}

/// A block is a segment and some columns.
template <bool Aligned>
__global__ void __launch_bounds__(kThreads)
    sum_segments_kernel(const __grid_constant__ EmbeddingGradient a, const __grid_constant__ Workspace w) {
  __shared__ std::int32_t ids[kRowsOfSegment + 2];  // with the neighbours before and after, -1 where there is none
  __shared__ std::int32_t rows[kRowsOfSegment];
  const std::int64_t begin = std::int64_t{blockIdx.x} * kRowsOfSegment;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < kRowsOfSegment + 2) {
    const std::int64_t at = begin + thread - 1;
    ids[thread] = at >= 0 && at < a.rows ? w.sorted_ids[at] : -1;
    if (thread < kRowsOfSegment) rows[thread] = begin + thread < a.rows ? w.sorted_rows[begin + thread] : 0;
  }
  __syncthreads();
  const int column = (static_cast<int>(blockIdx.y) * kThreads + thread) * kColumns;
  const int count = static_cast<int>(a.width) - column;
  if (count <= 0) return;
  float* sums = w.sums + std::int64_t{blockIdx.x} * 2 * a.width + column;
  bool began_before = ids[0] == ids[1];
  Four sum = {};
  for (int first = 0; first < kRowsOfSegment; first += kRowsAtOnce) {
    Four x[kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int id = ids[1 + first + i];
      if (id < 0 || id >= a.vocabulary) continue;
      load_four<Aligned>(a.residual_gradient + rows[first + i] * a.width + column, count, x[i]);
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int id = ids[1 + first + i];
      if (id < 0 || id >= a.vocabulary) break;  // none comes after
      add_four(sum, x[i]);
      const bool goes_on = ids[2 + first + i] == id;
      if (goes_on && first + i + 1 < kRowsOfSegment) continue;
      if (began_before || goes_on) {
        store_four<Aligned>(sums + (began_before ? 0 : a.width), count, sum);
      } else {
        add_to_table<Aligned>(a, id, column, sum);
      }
      began_before = false;
#pragma unroll
      for (float& value : sum) value = 0;
    }
  }
}

/// A block is a segment, which adds up an id that began in it and goes on after it.
template <bool Aligned>
__global__ void __launch_bounds__(kThreads)
    join_segments_kernel(const __grid_constant__ EmbeddingGradient a, const __grid_constant__ Workspace w,
                         const int segments) {
  const auto segment = static_cast<int>(blockIdx.x);
  const std::int64_t begin = std::int64_t{segment} * kRowsOfSegment;
  const std::int64_t end = begin + kRowsOfSegment;
  if (end >= a.rows) return;
  const std::int32_t id = w.sorted_ids[end - 1];
  if (id >= a.vocabulary || w.sorted_ids[end] != id) return;
  if (begin > 0 && w.sorted_ids[begin - 1] == id) return;
  const int column = (static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x)) * kColumns;
  const int count = static_cast<int>(a.width) - column;
  if (count <= 0) return;
  const float* sums = w.sums + column;
  Four sum;
  load_four<Aligned>(sums + (2 * std::int64_t{segment} + 1) * a.width, count, sum);
  bool goes_on = true;
  for (int first = segment + 1; goes_on && first < segments; first += kRowsAtOnce) {
    Four x[kRowsAtOnce];
    int known = 0;
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      goes_on = goes_on && first + i < segments && w.sorted_ids[(first + i) * std::int64_t{kRowsOfSegment}] == id;
      if (!goes_on) continue;
      load_four<Aligned>(sums + 2 * std::int64_t{first + i} * a.width, count, x[i]);
      known = i + 1;
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (i < known) add_four(sum, x[i]);
    }
  }
  add_to_table<Aligned>(a, id, column, sum);
}

template <bool Aligned>
void launch_embedding(const EmbeddingGradient& a, const Workspace& w, cudaStream_t stream) {
  const std::int64_t segments = segments_of(a.rows);
  constexpr std::int64_t kOfBlock = std::int64_t{kThreads} * kColumns;
  const dim3 grid(static_cast<unsigned>(segments), static_cast<unsigned>((a.width + kOfBlock - 1) / kOfBlock));
  sum_segments_kernel<Aligned><<<grid, kThreads, 0, stream>>>(a, w);
  join_segments_kernel<Aligned><<<grid, kThreads, 0, stream>>>(a, w, static_cast<int>(segments));
}

bool embedding_sizes_valid(const EmbeddingGradient& a) {
  return a.rows >= 1 && a.rows <= kMost && a.width >= 1 && a.width <= kMostWidth && a.vocabulary >= 1 &&
         a.vocabulary <= kMost;
}

}  // namespace

std::size_t workspace_bytes(const EmbeddingGradient& a) {
  if (!embedding_sizes_valid(a) || !is_available()) return 0;
  const Workspace w(a, nullptr);
  return w.valid() ? w.bytes : 0;
}

Status embedding_gradient(const EmbeddingGradient& a, Stream stream) {
  if (!embedding_sizes_valid(a)) return Status::invalid_argument;
  if (a.ids == nullptr || a.residual_gradient == nullptr || a.table_gradient == nullptr || a.workspace == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  Workspace w(a, a.workspace);
  if (!w.valid()) return Status::failed;
  const auto blocks = static_cast<unsigned>((a.rows + kThreads - 1) / kThreads);
  number_rows_kernel<<<blocks, kThreads, 0, stream>>>(a, w.ids, w.rows);
  if (!succeeded(w.sort(a, w.sorting, w.sorting_bytes, stream))) return Status::failed;
  const bool aligned = a.width % kColumns == 0 && aligned_16(a.residual_gradient) && aligned_16(a.table_gradient) &&
                       aligned_16(a.workspace);
  aligned ? launch_embedding<true>(a, w, stream) : launch_embedding<false>(a, w, stream);
  return launched();
}

}  // namespace foxscope::kernels::cuda
