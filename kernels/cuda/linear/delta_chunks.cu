// A block of threads is a chunk of a head for what does not depend on the state, and some columns of a head's state for
// the pass over the chunks; both have 8 warps, of which four share the rows of a chunk, 16 a warp, and two the columns.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/delta_chunks.h"
#include "kernels/cuda/linear/delta_tiles.cuh"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

using namespace delta_tiles;

constexpr int kDiagonal = 16;  // rows of a diagonal block of a triangle that a thread inverts a column of
constexpr int kMatrixStride = kT + 1;
constexpr int kProductStride = kT / 2 + 1;

/// Shared memory of a chunk.
struct ChunkMemory {
  int stride;        ///< of rows, numbers
  int panel;         ///< columns of `other`
  int panel_stride;  ///< of its rows
  Bfloat16* keys;    ///< [T, stride]
  Bfloat16* other;   ///< [T, panel_stride] queries, then values, a panel of columns at a time
  float* matrix;     ///< [T, kMatrixStride] A, then (I + A)^-1
  float* product;    ///< of two blocks beside the diagonal
  float* c;          ///< [T]
  float* beta;
  float* from_begin;  ///< exp(c)
  float* to_end;      ///< exp(c_T - c)
  float* erasing;     ///< beta exp(c)

  __host__ __device__ ChunkMemory(char* memory, std::int64_t rows) {
    const int depth = depth_of(rows);
    stride = depth + kPad;
    panel = depth > kT ? depth : kT;
    panel_stride = panel + kPad;
    keys = reinterpret_cast<Bfloat16*>(memory);
    other = keys + kT * stride;
    matrix = reinterpret_cast<float*>(other + kT * panel_stride);
    product = matrix + kT * kMatrixStride;
    c = product + kT / 2 * kProductStride;
    beta = c + kT;
    from_begin = beta + kT;
    to_end = from_begin + kT;
    erasing = to_end + kT;
  }
  __host__ static int bytes(std::int64_t rows) {
    const int depth = depth_of(rows);
    const int panel = std::max(depth, kT);
    const int halves = kT * (depth + kPad + panel + kPad);
    const int floats = kT * kMatrixStride + kT / 2 * kProductStride + 5 * kT;
    return 2 * halves + 4 * floats;
  }
};

/// Decays of a chunk's positions, by one warp.
/// @param base   of the head's numbers
/// @param first  position of the chunk
__device__ void sum_decays(const DeltaChunks& a, const ChunkMemory& m, std::int64_t base, std::int64_t first,
                           float* kept) {
  const auto lane = static_cast<int>(threadIdx.x);
  double step[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t t = first + 2 * lane + i;
    const bool inside = t < a.length;
    if (inside && a.log_decay != nullptr) step[i] = a.log_decay[base + t];
    m.beta[2 * lane + i] = !inside ? 0.0F : a.beta == nullptr ? 1.0F : a.beta[base + t];
  }
  double sum = step[0] + step[1];
#pragma unroll
  for (int back = 1; back < 32; back *= 2) {
    const double before = __shfl_up_sync(0xffffffffU, sum, back);
    if (lane >= back) sum += before;
  }
  const double total = __shfl_sync(0xffffffffU, sum, 31);
  double before = __shfl_up_sync(0xffffffffU, sum, 1);
  if (lane == 0) before = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    before += step[i];
    const int t = 2 * lane + i;
    m.c[t] = static_cast<float>(before);
    m.from_begin[t] = decay(m.c[t]);
    m.to_end[t] = decay(static_cast<float>(total - before));
    m.erasing[t] = m.beta[t] * m.from_begin[t];
  }
  if (lane == 0) *kept = decay(static_cast<float>(total));
  if (a.cumulative == nullptr) return;
  reinterpret_cast<float2*>(a.cumulative + std::int64_t{blockIdx.x} * kT)[lane] = {m.c[2 * lane], m.c[2 * lane + 1]};
}

/// (I + A)^-1 in two parts into memory.
__device__ void store_inverse(const ChunkMemory& m, Bfloat16* to) {
  for (int e = static_cast<int>(threadIdx.x); e < kT * kT / 2; e += kThreads) {
    const int i = e / (kT / 2);
    const int j = e % (kT / 2) * 2;
    const float x = j <= i ? m.matrix[i * kMatrixStride + j] : 0.0F;
    const float y = j + 1 <= i ? m.matrix[i * kMatrixStride + j + 1] : 0.0F;
    const std::uint32_t high = narrow(x, y);
    float rounded_x;
    float rounded_y;
    widen(high, rounded_x, rounded_y);
    reinterpret_cast<std::uint32_t*>(to)[e] = high;
    reinterpret_cast<std::uint32_t*>(to)[kT * kT / 2 + e] = narrow(x - rounded_x, y - rounded_y);
  }
}

/// Columns [first, first + panel) of a chunk's rows into shared memory, zeros where there are none.
/// @param count   rows that there are
/// @param factor  [T] by which rows are multiplied on their way to `scaled` [T, width]; null: there is none
__device__ __forceinline__ void load_panel(const float* from, std::int64_t row_stride, int count, int width, int first,
                                           int panel, Bfloat16* to, int stride, const float* factor, Bfloat16* scaled) {
  const int pieces = panel / 4;
  for (int e = static_cast<int>(threadIdx.x); e < kT * pieces; e += kThreads) {
    const int row = e / pieces;
    const int column = first + e % pieces * 4;
    float4 x{0, 0, 0, 0};
    if (row < count && column < width) x = *reinterpret_cast<const float4*>(from + row * row_stride + column);
    *reinterpret_cast<uint2*>(to + row * stride + column - first) = {narrow(x.x, x.y), narrow(x.z, x.w)};
    if (factor == nullptr || column >= width) continue;
    const float f = factor[row];
    *reinterpret_cast<uint2*>(scaled + std::int64_t{row} * width + column) = {narrow(x.x * f, x.y * f),
                                                                              narrow(x.z * f, x.w * f)};
  }
}

/// x k^T of 16 rows of x and 32 keys, as four tiles.
__device__ __forceinline__ void multiply_rows(const Bfloat16* x, int x_stride, const Bfloat16* keys, int key_stride,
                                              int depth, int row, int key, float (&entry)[4][4]) {
  for (int k = 0; k < depth; k += 16) {
    std::uint32_t left[4];
    load_rows(x, x_stride, row, k, left);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      std::uint32_t right[4];
      load_rows(keys, key_stride, key + 16 * n, k, right);
      multiply(entry[2 * n], left, right[0], right[2]);
      multiply(entry[2 * n + 1], left, right[1], right[3]);
    }
  }
}

/// A into `matrix`, and tril(Q K^T o Gamma) into memory.
/// @param triangle  A likewise; null: not wanted
__device__ __forceinline__ void fill_products(const ChunkMemory& m, int depth, Bfloat16* scores, Bfloat16* triangle) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp % kBands * 16;
  const int key = warp / kBands * (kT / 2);
  const Lane lane;
  float of_keys[4][4] = {};
  float of_queries[4][4] = {};
  if (key < row + 16) {
    multiply_rows(m.keys, m.stride, m.keys, m.stride, depth, row, key, of_keys);
    multiply_rows(m.other, m.panel_stride, m.keys, m.stride, depth, row, key, of_queries);
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + lane.row + 8 * r;
      float score[2];
      float entry[2];
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int j = key + 8 * n + lane.column + x;
        const float between = decay(m.c[i] - m.c[j]);
        entry[x] = j < i ? m.beta[i] * between * of_keys[n][2 * r + x] : 0.0F;
        m.matrix[i * kMatrixStride + j] = entry[x];
        score[x] = j <= i ? between * of_queries[n][2 * r + x] : 0.0F;
      }
      *reinterpret_cast<std::uint32_t*>(scores + i * kT + key + 8 * n + lane.column) = narrow(score[0], score[1]);
      if (triangle != nullptr) {
        *reinterpret_cast<std::uint32_t*>(triangle + i * kT + key + 8 * n + lane.column) = narrow(entry[0], entry[1]);
      }
    }
  }
}

/// Computes the lower left block of each pair of Size rows: T_21 = -T_22 (A_21 T_11), both triangles being inverted
/// already.
template <int Size>
__device__ __forceinline__ void join_blocks(const ChunkMemory& m) {
  const auto thread = static_cast<int>(threadIdx.x);
  constexpr int kEntries = kT / 2 * Size;
  for (int e = thread; e < kEntries; e += kThreads) {
    const int pair = e / (Size * Size) * 2 * Size;
    const int i = e / Size % Size;
    const int j = e % Size;
    float sum = 0;
    for (int k = j; k < Size; ++k) {
      sum += m.matrix[(pair + Size + i) * kMatrixStride + pair + k] * m.matrix[(pair + k) * kMatrixStride + pair + j];
    }
    m.product[(pair / 2 + i) * kProductStride + j] = sum;
  }
  __syncthreads();
  for (int e = thread; e < kEntries; e += kThreads) {
    const int pair = e / (Size * Size) * 2 * Size;
    const int i = e / Size % Size;
    const int j = e % Size;
    float sum = 0;
    for (int k = 0; k <= i; ++k) {
      sum -= m.matrix[(pair + Size + i) * kMatrixStride + pair + Size + k] *
             m.product[(pair / 2 + k) * kProductStride + j];
    }
    m.matrix[(pair + Size + i) * kMatrixStride + pair + j] = sum;
  }
  __syncthreads();
}

/// (I + A)^-1 in the place of A: the diagonal blocks by forward substitution, a column a thread, then what is beside
/// them.
__device__ __forceinline__ void invert(const ChunkMemory& m) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < kT) {
    const int j = thread % kDiagonal;
    float* const block = m.matrix + (thread - j) * kMatrixStride + thread - j;
    float x[kDiagonal];
#pragma unroll
    for (int i = 0; i < kDiagonal; ++i) {
      float sum = i == j ? 1.0F : 0.0F;
#pragma unroll
      for (int k = 0; k < i; ++k) sum -= block[i * kMatrixStride + k] * x[k];
      x[i] = i < j ? 0.0F : sum;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kDiagonal; ++i) block[i * kMatrixStride + j] = x[i];
  }
  __syncthreads();
  join_blocks<kDiagonal>(m);
  join_blocks<2 * kDiagonal>(m);
}

/// 16 rows of the inverse times diag(factor), as left operands of two parts.
struct SplitTriangle {
  std::uint32_t high[kBands][4];
  std::uint32_t low[kBands][4];

  __device__ __forceinline__ SplitTriangle(const ChunkMemory& m, int row, const float* factor) {
    const Lane lane;
#pragma unroll
    for (int k = 0; k < kBands; ++k) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = row + lane.row + r % 2 * 8;
        const int j = 16 * k + lane.column + r / 2 * 8;
        const float x = j <= i ? m.matrix[i * kMatrixStride + j] * factor[j] : 0.0F;
        const float y = j + 1 <= i ? m.matrix[i * kMatrixStride + j + 1] * factor[j + 1] : 0.0F;
        high[k][r] = narrow(x, y);
        float rounded_x;
        float rounded_y;
        widen(high[k][r], rounded_x, rounded_y);
        low[k][r] = narrow(x - rounded_x, y - rounded_y);
      }
    }
  }
};

/// The triangle times columns of rows in shared memory, to [T, width] from column `first` on.
__device__ __forceinline__ void multiply_triangle(const SplitTriangle& triangle, const Bfloat16* rows, int stride,
                                                  int panel, int first, int width, Bfloat16* out) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int band = warp % kBands;
  const Lane lane;
  for (int column = warp / kBands * 16; column < panel && first + column < width; column += 32) {
    float sum[2][4] = {};
#pragma unroll
    for (int k = 0; k < kBands; ++k) {
      if (k > band) break;
      std::uint32_t right[4];
      load_columns(rows, stride, 16 * k, column, right);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        multiply(sum[n], triangle.high[k], right[2 * n], right[2 * n + 1]);
        multiply(sum[n], triangle.low[k], right[2 * n], right[2 * n + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (first + column + 8 * n >= width) break;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const std::int64_t place =
            std::int64_t{16 * band + lane.row + 8 * r} * width + first + column + 8 * n + lane.column;
        *reinterpret_cast<std::uint32_t*>(out + place) = narrow(sum[n][2 * r], sum[n][2 * r + 1]);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads) delta_chunks_kernel(const __grid_constant__ DeltaChunks a) {
  extern __shared__ __align__(16) char memory[];
  const ChunkMemory m(memory, a.rows);
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t n = blockIdx.x % chunks;
  const std::int64_t head = blockIdx.x / chunks;  // b H + h
  const std::int64_t b = head / a.heads;
  const std::int64_t h = head % a.heads;
  const std::int64_t group = h / (a.heads / a.groups);
  const std::int64_t first = n * kT;
  const auto count = static_cast<int>(min(std::int64_t{kT}, a.length - first));
  const auto width = static_cast<int>(a.rows);
  const auto columns = static_cast<int>(a.columns);
  const int depth = depth_of(a.rows);
  const std::int64_t of_rows = std::int64_t{blockIdx.x} * kT * width;
  if (threadIdx.x < 32) sum_decays(a, m, head * a.length, first, a.kept + blockIdx.x);
  __syncthreads();
  load_panel(rows_of(a.key, b, group, first), a.key.row_stride, count, width, 0, depth, m.keys, m.stride, m.to_end,
             static_cast<Bfloat16*>(a.key_decayed) + of_rows);
  load_panel(rows_of(a.query, b, group, first), a.query.row_stride, count, width, 0, depth, m.other, m.panel_stride,
             m.from_begin, static_cast<Bfloat16*>(a.query_decayed) + of_rows);
  __syncthreads();
  const std::int64_t of_pairs = std::int64_t{blockIdx.x} * kT * kT;
  fill_products(m, depth, static_cast<Bfloat16*>(a.scores) + of_pairs,
                a.triangle == nullptr ? nullptr : static_cast<Bfloat16*>(a.triangle) + of_pairs);
  __syncthreads();
  invert(m);
  if (a.inverse != nullptr) {
    store_inverse(m, static_cast<Bfloat16*>(a.inverse) + std::int64_t{blockIdx.x} * 2 * kT * kT);
  }
  const int row = static_cast<int>(threadIdx.x) / 32 % kBands * 16;
  {
    const SplitTriangle erasing(m, row, m.erasing);
    multiply_triangle(erasing, m.keys, m.stride, depth, 0, width, static_cast<Bfloat16*>(a.erased) + of_rows);
  }
  const SplitTriangle writing(m, row, m.beta);
  for (int panel = 0; panel < columns; panel += m.panel) {
    if (panel > 0) __syncthreads();
    load_panel(rows_of(a.value, b, h, first), a.value.row_stride, count, columns, panel, m.panel, m.other,
               m.panel_stride, nullptr, nullptr);
    __syncthreads();
    multiply_triangle(writing, m.other, m.panel_stride, m.panel, panel, columns,
                      static_cast<Bfloat16*>(a.written) + std::int64_t{blockIdx.x} * kT * columns);
  }
}

/// Shared memory of some columns of a state, with the operands of one chunk or of two.
struct StateMemory {
  int stride;         ///< of rows of d, numbers
  int of_stage;       ///< numbers of a chunk's operands
  Bfloat16* stages;   ///< erased and keys [T, stride] each, written [T, kColumnStride]
  Bfloat16* updates;  ///< [T, kColumnStride]
  Bfloat16* state;    ///< [d up to 16, kColumnStride]

  __host__ __device__ static int stage_size(int depth) { return 2 * kT * (depth + kPad) + kT * kColumnStride; }
  __host__ __device__ static int bytes(int depth, int count) {
    return 2 * (count * stage_size(depth) + (kT + depth) * kColumnStride);
  }
  __device__ StateMemory(char* memory, int depth, int count) {
    stride = depth + kPad;
    of_stage = stage_size(depth);
    stages = reinterpret_cast<Bfloat16*>(memory);
    updates = stages + count * of_stage;
    state = updates + kT * kColumnStride;
  }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* erased(int stage) const { return stages + stage * of_stage; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* keys(int stage) const { return erased(stage) + kT * stride; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* written(int stage) const {
    return erased(stage) + 2 * kT * stride;
  }
};

/// The columns of a state, in registers as mma.sync leaves them: a warp has the 16 rows from 16 (warp + 8 tile) on.
/// @tparam Tiles           of a warp
/// @param count_of_stages  chunks whose operands are in shared memory at once, 1 or 2
template <int Tiles>
__global__ void __launch_bounds__(kThreads)
    delta_states_kernel(const __grid_constant__ DeltaStates a, int count_of_stages) {
  extern __shared__ __align__(16) char memory[];
  const auto width = static_cast<int>(a.rows);
  const auto columns = static_cast<int>(a.columns);
  const int depth = depth_of(a.rows);
  const StateMemory m(memory, depth, count_of_stages);
  const std::int64_t head = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * kColumns;
  const int count = min(kColumns, columns - first);
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const Lane lane;
  const std::int64_t row_base = head * a.chunks * kT;
  auto* updates = static_cast<Bfloat16*>(a.updates) + row_base * columns + first;
  auto* before = static_cast<Bfloat16*>(a.before) + head * a.chunks * width * columns + first;

  // The copies below leave out columns past the widths.
  for (int e = thread; e < StateMemory::bytes(depth, count_of_stages) / 4; e += kThreads) {
    reinterpret_cast<std::uint32_t*>(memory)[e] = 0;
  }
  __syncthreads();
  const auto load = [&](std::int64_t n, int stage) {
    const std::int64_t row = row_base + n * kT;
    copy_rows(static_cast<const Bfloat16*>(a.erased) + row * width, width, 0, width, m.erased(stage), m.stride);
    copy_rows(static_cast<const Bfloat16*>(a.written) + row * columns, columns, first, count, m.written(stage),
              kColumnStride);
    copy_rows(static_cast<const Bfloat16*>(a.key_decayed) + row * width, width, 0, width, m.keys(stage), m.stride);
  };
  load(0, 0);
  commit();

  float state[Tiles][kColumns / 8][4] = {};
  // Calls visit(row, column, low, high) for the pairs of the thread that are of the state.
  const auto for_pairs = [&](auto&& visit) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 16 * (warp + 8 * tile) + lane.row + 8 * r;
        if (row >= width) break;
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          if (8 * n < count) visit(row, 8 * n + lane.column, state[tile][n][2 * r], state[tile][n][2 * r + 1]);
        }
      }
    }
  };
  if (a.first != nullptr) {
    const float* from = a.first + head * width * columns + first;
    for_pairs([&](int row, int column, float& low, float& high) {
      const float2 pair = *reinterpret_cast<const float2*>(from + std::int64_t{row} * columns + column);
      low = pair.x;
      high = pair.y;
    });
  }
  const int row = warp % kBands * 16;
  const int column = warp / kBands * 16;
  for (std::int64_t n = 0; n < a.chunks; ++n) {
    const int stage = count_of_stages == 2 ? static_cast<int>(n % 2) : 0;
    for_pairs([&](int at, int from, float& low, float& high) {
      const std::uint32_t pair = narrow(low, high);
      *reinterpret_cast<std::uint32_t*>(m.state + at * kColumnStride + from) = pair;
      *reinterpret_cast<std::uint32_t*>(before + std::int64_t{at} * columns + from) = pair;
    });
    before += std::int64_t{width} * columns;
    const float kept = a.kept[head * a.chunks + n];
    const bool goes_on = n + 1 < a.chunks;
    if (count_of_stages == 2 && goes_on) load(n + 1, 1 - stage);
    commit();
    if (count_of_stages == 2) {
      wait<1>();
    } else {
      wait<0>();
    }
    __syncthreads();
    // Sums of even and of odd pieces of the depth, so that one product need not wait for the other.
    float taken[2][2][4] = {};
    for (int k = 0; k < depth; k += 32) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        if (k + 16 * x >= depth) break;
        std::uint32_t left[4];
        std::uint32_t right[4];
        load_rows(m.erased(stage), m.stride, row, k + 16 * x, left);
        load_columns(m.state, kColumnStride, k + 16 * x, column, right);
        multiply(taken[x][0], left, right[0], right[1]);
        multiply(taken[x][1], left, right[2], right[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int t = row + lane.row + 8 * r;
        const int at = column + 8 * half + lane.column;
        float low;
        float high;
        widen(*reinterpret_cast<const std::uint32_t*>(m.written(stage) + t * kColumnStride + at), low, high);
        low -= taken[0][half][2 * r] + taken[1][half][2 * r];
        high -= taken[0][half][2 * r + 1] + taken[1][half][2 * r + 1];
        const std::uint32_t pair = narrow(low, high);
        *reinterpret_cast<std::uint32_t*>(m.updates + t * kColumnStride + at) = pair;
        if (at < count) *reinterpret_cast<std::uint32_t*>(updates + std::int64_t{t} * columns + at) = pair;
      }
    }
    updates += std::int64_t{kT} * columns;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < Tiles * kColumns / 2; ++e) state[e / (kColumns / 2)][e / 4 % (kColumns / 8)][e % 4] *= kept;
#pragma unroll
    for (int t = 0; t < kT; t += 16) {
      std::uint32_t right[2][4];
      load_columns(m.updates, kColumnStride, t, 0, right[0]);
      load_columns(m.updates, kColumnStride, t, 16, right[1]);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const int from = 16 * (warp + 8 * tile);
        if (from >= depth) break;
        std::uint32_t left[4];
        load_left_transposed(m.keys(stage), m.stride, t, from, left);
#pragma unroll
        for (int x = 0; x < kColumns / 8; ++x) {
          multiply(state[tile][x], left, right[x / 2][x % 2 * 2], right[x / 2][x % 2 * 2 + 1]);
        }
      }
    }
    __syncthreads();
    if (count_of_stages == 1 && goes_on) load(n + 1, 0);
  }
  if (a.last == nullptr) return;
  float* to = a.last + head * width * columns + first;
  for_pairs([&](int at, int from, float low, float high) {
    *reinterpret_cast<float2*>(to + std::int64_t{at} * columns + from) = {low, high};
  });
}

template <int Tiles>
Status launch_states(const DeltaStates& a, Stream stream) {
  const int depth = depth_of(a.rows);
  const int stages = stages_that_fit(StateMemory::bytes(depth, 2));
  const int bytes = StateMemory::bytes(depth, stages);
  const Status allowed = allow_memory(delta_states_kernel<Tiles>, bytes);
  if (allowed != Status::ok) return allowed;
  const dim3 blocks(static_cast<unsigned>(delta_state_parts(a.columns)), static_cast<unsigned>(a.heads));
  delta_states_kernel<Tiles><<<blocks, kThreads, bytes, stream>>>(a, stages);
  return launched();
}

}  // namespace

Status delta_chunks(const DeltaChunks& a, Stream stream) {
  const bool sizes = is_size(a.batch) && is_size(a.heads) && is_size(a.groups) && a.heads % a.groups == 0 &&
                     is_size(a.length) && widths_fit(a.rows, a.columns);
  if (!sizes || !readable(a.query) || !readable(a.key) || !readable(a.value) || a.scores == nullptr ||
      a.query_decayed == nullptr || a.key_decayed == nullptr || a.erased == nullptr || a.written == nullptr ||
      a.kept == nullptr) {
    return Status::invalid_argument;
  }
  const std::int64_t blocks = a.batch * a.heads * ((a.length + kT - 1) / kT);
  if (blocks >= kMostBlocks) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const int bytes = ChunkMemory::bytes(a.rows);
  const Status allowed = allow_memory(delta_chunks_kernel, bytes);
  if (allowed != Status::ok) return allowed;
  delta_chunks_kernel<<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(a);
  return launched();
}

Status delta_states(const DeltaStates& a, Stream stream) {
  if (!is_size(a.heads) || a.heads >= 65536 || !is_size(a.chunks) || !widths_fit(a.rows, a.columns) ||
      a.erased == nullptr || a.key_decayed == nullptr || a.written == nullptr || a.kept == nullptr ||
      a.updates == nullptr || a.before == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  return a.rows <= 8 * 16 ? launch_states<1>(a, stream) : launch_states<2>(a, stream);
}

}  // namespace foxscope::kernels::cuda
