// Tables of linear mixers: operands of products of whole blocks, and the entries within blocks.
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/maps/mixing_tables.cuh"

namespace foxscope::kernels::cuda {
namespace maps {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

struct Sources {
  const void* query = nullptr;
  const void* key = nullptr;
  const double* sums = nullptr;  ///< [L] or [L, d]; null: zeros
  const float* beta = nullptr;
  bool float32 = false;
  int length = 0;
  int dim = 0;     ///< channels of this part of the head
  int stride = 0;  ///< of all
  int first = 0;   ///< of the part's
  int depth = 0;
  int parts = 0;
  std::int64_t part = 0;

  __device__ __forceinline__ float number(const void* from, std::int64_t row, int n) const {
    const std::int64_t at = row * stride + first + n;
    return float32 ? static_cast<const float*>(from)[at]
                   : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]);
  }
  /// c of a head that decays as a whole.
  __device__ __forceinline__ double sum_at(int row) const { return sums == nullptr ? 0.0 : sums[row]; }
  __device__ __forceinline__ float query_at(std::int64_t row, int n) const {
    return query == nullptr ? 1.0F / static_cast<float>(stride) : number(query, row, n);
  }
  __device__ __forceinline__ float key_at(std::int64_t row, int n) const {
    return key == nullptr ? 1.0F : number(key, row, n);
  }
};

/// Writes a row of an operand, one warp a row, and joins its norm to those of its 32 rows.
/// @param value  value(n) for n < dim
template <typename Value>
__device__ __forceinline__ void write_row(const Sources& s, std::int64_t row, float norm_factor, __nv_bfloat16* out,
                                          unsigned* norm, const Value& value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float2 pair[2] = {};
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int n = 2 * lane + 64 * i;
    if (n >= s.depth) continue;
    pair[i] = {n < s.dim ? value(n) : 0.0F, n + 1 < s.dim ? value(n + 1) : 0.0F};
    largest = maximum(largest, maximum(fabsf(pair[i].x), fabsf(pair[i].y)));
    const SplitPair split = split_pair(pair[i].x, pair[i].y);
    auto* to = reinterpret_cast<std::uint32_t*>(out + row * s.depth + n);
    *to = split.high;
    if (s.parts == 2) to[s.part / 2] = split.low;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) largest = maximum(largest, __shfl_xor_sync(0xffffffffU, largest, lanes));
  // Relative to the largest number: squares of what has decayed far would be 0.
  const float scale = largest > 0 ? largest : 1.0F;
  float square = isnan(largest) ? largest : 0.0F;
#pragma unroll
  for (const float2& x : pair) {
    const float2 part = {x.x / scale, x.y / scale};
    square = fmaf(part.x, part.x, fmaf(part.y, part.y, square));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) square += __shfl_xor_sync(0xffffffffU, square, lanes);
  // Bits of numbers of at least 0 are in the numbers' order, and those of NaN come last.
  const float size = sqrtf(square) * scale * norm_factor;
  if (lane == 0) atomicMax(norm + row / kWarpRows, isnan(size) ? 0x7fffffffU : __float_as_uint(size));
}

/// Raw queries (blockIdx.y 0) and keys (1) of a head that decays as a whole.
__global__ void write_raw(const __grid_constant__ Sources s, __nv_bfloat16* query, __nv_bfloat16* key, float* factor,
                          double* gate, unsigned* query_norm, unsigned* key_norm) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const bool inside = row < s.length;
  if (blockIdx.y == 0) {
    write_row(s, row, 1.0F, query, query_norm, [&](int n) { return inside ? s.query_at(row, n) : 0.0F; });
    if (threadIdx.x % 32 == 0) gate[row] = s.sum_at(min(row, s.length - 1));
    return;
  }
  const int last = min(row / kTileKeys * kTileKeys + kTileKeys, s.length) - 1;
  const float beta = s.beta == nullptr ? 1.0F : s.beta[min(row, s.length - 1)];
  const float of_key = inside ? beta * decay_between(s.sum_at(last), s.sum_at(row)) : 0.0F;
  write_row(s, row, fabsf(of_key), key, key_norm, [&](int n) { return inside ? s.key_at(row, n) : 0.0F; });
  if (threadIdx.x % 32 == 0) factor[row] = of_key;
}

/// Queries or keys of one level, blockIdx.y, decayed from or to its boundaries.
/// @param norms  [levels, rows / 32]
__global__ void write_level(const __grid_constant__ Sources s, __nv_bfloat16* operand, unsigned* norms) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const auto level = static_cast<int>(blockIdx.y);
  const std::int64_t rows = s.part / s.depth;
  const int unit = (row / kTileKeys) >> level;
  const bool of_query = unit % 2 != 0;
  const std::int64_t boundary = (std::int64_t{of_query ? unit : unit + 1} << level) * kTileKeys - 1;
  // Where the text ends no later than the boundary, no query follows.
  const bool inside = row < s.length && boundary < s.length - 1;
  const double* of_row = s.sums + s.first + (inside ? std::int64_t{row} * s.stride : 0);
  const double* of_boundary = s.sums + s.first + (inside ? boundary * s.stride : 0);
  write_row(s, row, 1.0F, operand + level * s.parts * s.part, norms + level * (rows / kWarpRows), [&](int n) {
    if (!inside) return 0.0F;
    return of_query ? s.query_at(row, n) * decay_between(of_row[n], of_boundary[n])
                    : s.key_at(row, n) * decay_between(of_boundary[n], of_row[n]);
  });
}

int diagonal_bytes(const Sources& s, bool by_channel) {
  const int sums = by_channel ? kTileKeys * (s.dim + 1) : kTileKeys;
  return sums * 8 + kTileKeys * (s.dim + 1) * 4;
}

/// The entries within a block, one by one: a block of threads each, a warp a query, a lane a key.
template <bool ByChannel>
__global__ void __launch_bounds__(kThreads) write_diagonal(const __grid_constant__ Sources s, float* diagonal) {
  extern __shared__ __align__(16) char memory[];
  auto* sums = reinterpret_cast<double*>(memory);
  const int stride = s.dim + 1;
  auto* keys = reinterpret_cast<float*>(sums + (ByChannel ? kTileKeys * stride : kTileKeys));
  const int first = static_cast<int>(blockIdx.x) * kTileKeys;
  const int count = min(kTileKeys, s.length - first);
  for (int at = static_cast<int>(threadIdx.x); at < count * s.dim; at += kThreads) {
    const int row = at / s.dim;
    const int n = at % s.dim;
    keys[row * stride + n] = s.key_at(first + row, n);
    if (ByChannel) sums[row * stride + n] = s.sums[std::int64_t{first + row} * s.stride + s.first + n];
  }
  if (!ByChannel) {
    for (int row = static_cast<int>(threadIdx.x); row < count; row += kThreads) sums[row] = s.sum_at(first + row);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < count; row += kWarps) {
    for (int key = lane; key <= row; key += 32) {
      float sum = 0;
      for (int n = 0; n < s.dim; ++n) {
        const float product = s.query_at(first + row, n) * keys[key * stride + n];
        sum = ByChannel ? fmaf(product, decay_between(sums[row * stride + n], sums[key * stride + n]), sum)
                        : sum + product;
      }
      if (!ByChannel) {
        sum *= (s.beta == nullptr ? 1.0F : s.beta[first + key]) * decay_between(sums[row], sums[key]);
      }
      diagonal[std::int64_t{first + row} * kTileKeys + key] = sum;
    }
  }
}

template <bool ByChannel>
Status prepare_diagonal(const Sources& s, float* diagonal, int shared_bytes, cudaStream_t stream) {
  const int bytes = diagonal_bytes(s, ByChannel);
  if (bytes > shared_bytes) return Status::unsupported;
  auto* kernel = write_diagonal<ByChannel>;
  if (!succeeded(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))) {
    return Status::failed;
  }
  const auto blocks = static_cast<unsigned>((s.length + kTileKeys - 1) / kTileKeys);
  kernel<<<blocks, kThreads, static_cast<std::size_t>(bytes), stream>>>(s, diagonal);
  return launched();
}

/// @param first   channel of the part of a head
/// @param stride  channels of all parts
Status prepare_part(const MixingHead& head, int first, int stride, char* memory, int shared_bytes,
                    cudaStream_t stream) {
  const MixingTables plan(head);
  if (head.kind == MixingKind::delta_rule) return prepare_delta(head, plan, memory, shared_bytes, stream);
  Sources s;
  s.query = head.query;
  s.key = head.key;
  s.sums = head.cumulative_log_decay;
  s.beta = head.beta;
  s.float32 = head.element == ElementType::float32;
  s.length = static_cast<int>(head.length);
  s.dim = static_cast<int>(head.head_dim);
  s.stride = stride;
  s.first = first;
  s.depth = plan.depth;
  s.parts = plan.parts;
  s.part = plan.part;
  // Norms, which begin as 0, lie together.
  const std::int64_t norms_end = head.kind == MixingKind::head_decay
                                     ? plan.key_norm + plan.rows / kWarpRows * 4
                                     : plan.query_norm + plan.levels * (plan.rows / kWarpRows) * 4;
  if (!succeeded(cudaMemsetAsync(memory + plan.query_norm, 0, static_cast<std::size_t>(norms_end - plan.query_norm),
                                 stream))) {
    return Status::failed;
  }
  auto* query = reinterpret_cast<__nv_bfloat16*>(memory + plan.query);
  auto* query_norm = reinterpret_cast<unsigned*>(memory + plan.query_norm);
  auto* diagonal = reinterpret_cast<float*>(memory + plan.diagonal);
  const auto row_blocks = static_cast<unsigned>(plan.rows / kWarps);
  if (head.kind == MixingKind::head_decay) {
    write_raw<<<dim3(row_blocks, 2), kThreads, 0, stream>>>(
        s, query, reinterpret_cast<__nv_bfloat16*>(memory + plan.key), reinterpret_cast<float*>(memory + plan.factor),
        reinterpret_cast<double*>(memory + plan.gate), query_norm, reinterpret_cast<unsigned*>(memory + plan.key_norm));
    if (const Status status = launched(); status != Status::ok) return status;
    return prepare_diagonal<false>(s, diagonal, shared_bytes, stream);
  }
  if (plan.levels > 0) {
    write_level<<<dim3(row_blocks, static_cast<unsigned>(plan.levels)), kThreads, 0, stream>>>(s, query, query_norm);
    if (const Status status = launched(); status != Status::ok) return status;
  }
  return prepare_diagonal<true>(s, diagonal, shared_bytes, stream);
}

Status prepare(const MixingHead& head, char* memory, int shared_bytes, cudaStream_t stream) {
  const MixingParts parts(head);
  for (int n = 0; n < parts.count; ++n) {
    const Status status = prepare_part(parts.head[n], static_cast<int>(n * kMostChannels),
                                       static_cast<int>(head.head_dim), memory + parts.at[n], shared_bytes, stream);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

bool pointers_valid(const MixingHead& head) {
  if ((head.query == nullptr) != (head.key == nullptr)) return false;
  if (head.query == nullptr && head.kind != MixingKind::channel_decay) return false;
  return head.cumulative_log_decay != nullptr || head.kind != MixingKind::channel_decay;
}

}  // namespace

bool mixing_sizes_valid(const MixingHead& head) {
  return head.length >= 1 && head.length <= std::numeric_limits<int>::max() / 4 && head.head_dim >= 1 &&
         head.head_dim <= 256;
}

}  // namespace maps

std::size_t mixing_table_bytes(const MixingHead& head) {
  return maps::mixing_sizes_valid(head) ? static_cast<std::size_t>(maps::MixingParts(head).bytes) : 0;
}

Status prepare_mixing_head(const MixingHead& head, void* tables, Stream stream) {
  if (tables == nullptr || !maps::mixing_sizes_valid(head) || !maps::pointers_valid(head)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  int device = 0;
  int shared_bytes = 0;
  const bool known = succeeded(cudaGetDevice(&device)) &&
                     succeeded(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return known ? maps::prepare(head, static_cast<char*>(tables), shared_bytes, stream) : Status::failed;
}

}  // namespace foxscope::kernels::cuda
