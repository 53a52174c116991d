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

constexpr int kWarps = kThreads / 32;
constexpr int kRowsOfWarp = kT / kWarps;

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

/// Shared memory of some columns of a state, with the operands of one chunk or of two.
struct StateMemory {
  int stride;        ///< of rows of d, numbers
  int of_stage;      ///< numbers of a chunk's operands
  Bfloat16* stages;  ///< keys, queries, erased [T, stride] each, outputs and updates [T, kColumnStride] each
  Bfloat16* taken;   ///< [T, kColumnStride] -dV'
  Bfloat16* state;   ///< [d up to 16, kColumnStride] dS

  __host__ __device__ static int stage_size(int depth) { return 3 * kT * (depth + kPad) + 2 * kT * kColumnStride; }
  __host__ __device__ static int bytes(int depth, int count) {
    return 2 * (count * stage_size(depth) + (kT + depth) * kColumnStride);
  }
  __device__ StateMemory(char* memory, int depth, int count) {
    stride = depth + kPad;
    of_stage = stage_size(depth);
    stages = reinterpret_cast<Bfloat16*>(memory);
    taken = stages + count * of_stage;
    state = taken + kT * kColumnStride;
  }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* keys(int stage) const { return stages + stage * of_stage; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* queries(int stage) const { return keys(stage) + kT * stride; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* erased(int stage) const { return keys(stage) + 2 * kT * stride; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* outputs(int stage) const { return keys(stage) + 3 * kT * stride; }
  [[nodiscard]] __device__ __forceinline__ Bfloat16* updates(int stage) const {
    return outputs(stage) + kT * kColumnStride;
  }
};

/// The columns of dS, in registers as mma.sync leaves them: a warp has the 16 rows from 16 (warp + 8 tile) on. A block
/// goes through the chunks from the last to the first.
/// @tparam Tiles  of a warp
/// @param count_of_stages  chunks whose operands are in shared memory at once, 1 or 2
template <int Tiles>
__global__ void __launch_bounds__(kThreads)
    states_gradient_kernel(const __grid_constant__ DeltaStatesGradient a, int count_of_stages) {
  extern __shared__ __align__(16) char memory[];
  __shared__ float of_warp[kWarps];
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
  auto* const updates = static_cast<Bfloat16*>(a.updates_gradient) + row_base * columns;
  const std::int64_t state_base = head * a.chunks * width * columns + first;
  const auto* const before = static_cast<const Bfloat16*>(a.before) + state_base;
  auto* const after = static_cast<Bfloat16*>(a.after_gradient) + state_base;

  // The copies below leave out columns past the widths.
  for (int e = thread; e < StateMemory::bytes(depth, count_of_stages) / 4; e += kThreads) {
    reinterpret_cast<std::uint32_t*>(memory)[e] = 0;
  }
  __syncthreads();
  const auto load = [&](std::int64_t n, int stage) {
    const std::int64_t at = (row_base + n * kT) * width;
    copy_rows(static_cast<const Bfloat16*>(a.key_decayed) + at, width, 0, width, m.keys(stage), m.stride);
    copy_rows(updates + n * kT * columns, columns, first, count, m.updates(stage), kColumnStride);
    copy_rows(static_cast<const Bfloat16*>(a.query_decayed) + at, width, 0, width, m.queries(stage), m.stride);
    copy_rows(static_cast<const Bfloat16*>(a.erased) + at, width, 0, width, m.erased(stage), m.stride);
    copy_rows(static_cast<const Bfloat16*>(a.mixed_gradient) + (row_base + n * kT) * columns, columns, first, count,
              m.outputs(stage), kColumnStride);
  };
  load(a.chunks - 1, 0);
  commit();

  float state[Tiles][kColumns / 8][4] = {};
  const int row = warp % kBands * 16;
  const int column = warp / kBands * 16;
  for (std::int64_t n = a.chunks - 1; n >= 0; --n) {
    const int stage = count_of_stages == 2 ? static_cast<int>((a.chunks - 1 - n) % 2) : 0;
    float kept_gradient = 0;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int at = 16 * (warp + 8 * tile) + lane.row + 8 * r;
        if (at >= width) break;
#pragma unroll
        for (int x = 0; x < kColumns / 8; ++x) {
          if (8 * x >= count) break;
          const int from = 8 * x + lane.column;
          const float low = state[tile][x][2 * r];
          const float high = state[tile][x][2 * r + 1];
          const std::uint32_t pair = narrow(low, high);
          const std::int64_t place = (n * width + at) * columns + from;
          *reinterpret_cast<std::uint32_t*>(m.state + at * kColumnStride + from) = pair;
          *reinterpret_cast<std::uint32_t*>(after + place) = pair;
          if (a.kept_gradient != nullptr) {
            float held_low;
            float held_high;
            widen(*reinterpret_cast<const std::uint32_t*>(before + place), held_low, held_high);
            kept_gradient += low * held_low + high * held_high;
          }
        }
      }
    }
    const float kept = a.kept[head * a.chunks + n];
    if (count_of_stages == 2 && n > 0) load(n - 1, 1 - stage);
    commit();
    if (count_of_stages == 2) {
      wait<1>();
    } else {
      wait<0>();
    }
    __syncthreads();
    // Sums of even and of odd pieces of the depth, so that one product need not wait for the other.
    float more[2][2][4] = {};
    for (int k = 0; k < depth; k += 32) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        if (k + 16 * x >= depth) break;
        std::uint32_t left[4];
        std::uint32_t right[4];
        load_rows(m.keys(stage), m.stride, row, k + 16 * x, left);
        load_columns(m.state, kColumnStride, k + 16 * x, column, right);
        multiply(more[x][0], left, right[0], right[1]);
        multiply(more[x][1], left, right[2], right[3]);
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
        widen(*reinterpret_cast<const std::uint32_t*>(m.updates(stage) + t * kColumnStride + at), low, high);
        low += more[0][half][2 * r] + more[1][half][2 * r];
        high += more[0][half][2 * r + 1] + more[1][half][2 * r + 1];
        const std::uint32_t pair = narrow(low, high);
        *reinterpret_cast<std::uint32_t*>(m.taken + t * kColumnStride + at) = pair ^ 0x80008000U;
        if (at < count) {
          *reinterpret_cast<std::uint32_t*>(updates + (n * kT + t) * columns + first + at) = pair;
        }
      }
    }
    kept_gradient = sum_of_warp(kept_gradient);
    if (thread % 32 == 0) of_warp[warp] = kept_gradient;
    __syncthreads();
    if (thread == 0 && a.kept_gradient != nullptr) {
      float sum = 0;
      for (const float part : of_warp) sum += part;
      a.kept_gradient[(head * a.chunks + n) * gridDim.x + blockIdx.x] = sum;
    }
#pragma unroll
    for (int e = 0; e < Tiles * kColumns / 2; ++e) state[e / (kColumns / 2)][e / 4 % (kColumns / 8)][e % 4] *= kept;
#pragma unroll
    for (int t = 0; t < kT; t += 16) {
      std::uint32_t of_outputs[2][4];
      std::uint32_t of_taken[2][4];
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        load_columns(m.outputs(stage), kColumnStride, t, 16 * x, of_outputs[x]);
        load_columns(m.taken, kColumnStride, t, 16 * x, of_taken[x]);
      }
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const int from = 16 * (warp + 8 * tile);
        if (from >= depth) break;
        std::uint32_t left[4];
        load_left_transposed(m.queries(stage), m.stride, t, from, left);
#pragma unroll
        for (int x = 0; x < kColumns / 8; ++x) {
          multiply(state[tile][x], left, of_outputs[x / 2][x % 2 * 2], of_outputs[x / 2][x % 2 * 2 + 1]);
        }
        load_left_transposed(m.erased(stage), m.stride, t, from, left);
#pragma unroll
        for (int x = 0; x < kColumns / 8; ++x) {
          multiply(state[tile][x], left, of_taken[x / 2][x % 2 * 2], of_taken[x / 2][x % 2 * 2 + 1]);
        }
      }
    }
    __syncthreads();
    if (count_of_stages == 1 && n > 0) load(n - 1, 0);
  }
}

/// A block is a chunk of a head, a thread 16 entries of a row.
__global__ void __launch_bounds__(kThreads) triangle_gradient_kernel(const __grid_constant__ DeltaTriangleGradient a) {
  __shared__ float c[kT];
  __shared__ float beta[kT];
  __shared__ float of_row[kT];
  __shared__ float of_column[kWarps][kT];
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t n = blockIdx.x % chunks;
  const std::int64_t head = blockIdx.x / chunks;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (thread < kT) {
    const std::int64_t t = n * kT + thread;
    c[thread] = a.cumulative[std::int64_t{blockIdx.x} * kT + thread];
    beta[thread] = t >= a.length ? 0.0F : a.beta == nullptr ? 1.0F : a.beta[head * a.length + t];
  }
  __syncthreads();
  constexpr std::int64_t kSize = kT * kT;
  const int i = thread / 4;
  const std::int64_t chunk = blockIdx.x;
  const auto* from = static_cast<const Bfloat16*>(a.products) + chunk * 2 * kSize + i * kT;
  const auto* scores = static_cast<const Bfloat16*>(a.scores) + chunk * kSize + i * kT;
  const auto* triangle = static_cast<const Bfloat16*>(a.triangle) + chunk * kSize + i * kT;
  auto* to = static_cast<Bfloat16*>(a.triangles) + chunk * 3 * kSize + i * kT;
  float row_sum = 0;
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = thread % 4 * 16 + piece * 8;
    RowChunk f = {};
    RowChunk e = {};
    RowChunk g = {};
    RowChunk pair = {};
    if (first <= i) {
      RawChunk<Bfloat16> raw[4];
      raw[0].load(from + first);
      raw[1].load(from + kSize + first);
      raw[2].load(scores + first);
      raw[3].load(triangle + first);
      RowChunk score;
      RowChunk entry;
      raw[0].read(f);
      raw[1].read(e);
      raw[2].read(score);
      raw[3].read(entry);
#pragma unroll
      for (int x = 0; x < 8; ++x) {
        const int j = first + x;
        const float between = decay(c[i] - c[j]);
        pair[x] = j < i ? e[x] * score[x] - f[x] * entry[x] : 0.0F;
        row_sum += pair[x];
        f[x] = j < i ? -f[x] * between : 0.0F;
        e[x] = j <= i ? e[x] * between : 0.0F;
        g[x] = f[x] * beta[i];
      }
    }
    store_chunk<true>(to + first, 8, f);
    store_chunk<true>(to + kSize + first, 8, e);
    store_chunk<true>(to + 2 * kSize + first, 8, g);
#pragma unroll
    for (int x = 0; x < 8; ++x) {
#pragma unroll
      for (int step = 4; step < 32; step *= 2) pair[x] += __shfl_xor_sync(0xffffffffU, pair[x], step);
      if (lane < 4) of_column[thread / 32][first + x] = pair[x];
    }
  }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) row_sum += __shfl_xor_sync(0xffffffffU, row_sum, step);
  if (thread % 4 == 0) of_row[i] = row_sum;
  __syncthreads();
  if (thread >= kT) return;
  float column = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) column += of_column[warp][thread];
  a.of_pairs[chunk * kT + thread] = of_row[thread] - column;
}

__device__ __forceinline__ float4 four_of(const void* from, std::int64_t at) {
  const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const Bfloat16*>(from) + at);
  float4 x;
  widen(words.x, x.x, x.y);
  widen(words.y, x.z, x.w);
  return x;
}

__device__ __forceinline__ float dot(const float4& x, const float4& y) {
  return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

/// A block is a chunk of a head, a warp 8 of its rows.
__global__ void __launch_bounds__(kThreads) rows_gradient_kernel(const __grid_constant__ DeltaRowsGradient a) {
  __shared__ float of_c[kT];    // gradient by c of each position
  __shared__ float of_end[kT];  // by that of the last one
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const std::int64_t n = blockIdx.x % chunks;
  const std::int64_t head = blockIdx.x / chunks;  // b H + h
  const std::int64_t b = head / a.heads;
  const std::int64_t h = head % a.heads;
  const std::int64_t group = h / (a.heads / a.groups);
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t chunk = blockIdx.x;
  const float* const c = a.cumulative + chunk * kT;
  const float last = c[kT - 1];
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const int row = warp * kRowsOfWarp + r;
    const std::int64_t t = n * kT + row;
    if (t >= a.length) {
      if (lane == 0) of_c[row] = of_end[row] = 0;
      continue;
    }
    const float beta = a.beta == nullptr ? 1.0F : a.beta[head * a.length + t];
    const float from_begin = decay(c[row]);
    const float to_end = decay(last - c[row]);
    const float* const query = rows_of(a.query, b, group, t);
    const float* const key = rows_of(a.key, b, group, t);
    const std::int64_t of_one = (chunk * kT + row) * a.rows;
    const std::int64_t of_two = (chunk * 2 * kT + row) * a.rows;
    const std::int64_t second = kT * a.rows;
    const std::int64_t out = (head * a.length + t) * a.rows;
    float sums[5] = {};
    for (std::int64_t column = lane * 4; column < a.rows; column += 128) {
      const float4 q = *reinterpret_cast<const float4*>(query + column);
      const float4 k = *reinterpret_cast<const float4*>(key + column);
      const float4 fk = four_of(a.of_keys, of_two + column);
      const float4 ek = four_of(a.of_keys, of_two + second + column);
      const float4 both = four_of(a.of_both, of_one + column);
      const float4 xs = four_of(a.of_states, of_two + column);
      const float4 rs = four_of(a.of_states, of_two + second + column);
      const float4 vs = four_of(a.of_updates, of_one + column);
      float4 dq;
      dq.x = ek.x + from_begin * rs.x;
      dq.y = ek.y + from_begin * rs.y;
      dq.z = ek.z + from_begin * rs.z;
      dq.w = ek.w + from_begin * rs.w;
      const float erasing = -beta * from_begin;
      float4 dk;
      dk.x = beta * fk.x + both.x + to_end * vs.x + erasing * xs.x;
      dk.y = beta * fk.y + both.y + to_end * vs.y + erasing * xs.y;
      dk.z = beta * fk.z + both.z + to_end * vs.z + erasing * xs.z;
      dk.w = beta * fk.w + both.w + to_end * vs.w + erasing * xs.w;
      *reinterpret_cast<float4*>(a.query_gradient + out + column) = dq;
      *reinterpret_cast<float4*>(a.key_gradient + out + column) = dk;
      sums[0] += dot(k, fk);
      sums[1] += dot(k, xs);
      sums[2] += dot(q, rs);
      sums[3] += dot(k, vs);
    }
    const float* const value = rows_of(a.value, b, h, t);
    for (std::int64_t column = lane * 4; column < a.columns; column += 128) {
      const float4 x = four_of(a.right, (chunk * 2 * kT + row) * a.columns + column);
      sums[4] += dot(x, *reinterpret_cast<const float4*>(value + column));
      *reinterpret_cast<float4*>(a.value_gradient + (head * a.length + t) * a.columns + column) = {
          beta * x.x, beta * x.y, beta * x.z, beta * x.w};
    }
#pragma unroll
    for (float& sum : sums) sum = sum_of_warp(sum);
    if (lane == 0) {
      const float erased = from_begin * sums[1];
      const float left = to_end * sums[3];
      if (a.beta_gradient != nullptr) a.beta_gradient[head * a.length + t] = sums[0] - erased + sums[4];
      of_c[row] = a.of_pairs[chunk * kT + row] + from_begin * sums[2] - beta * erased - left;
      of_end[row] = left;
    }
  }
  if (a.kept_gradient == nullptr) return;
  __syncthreads();
  if (warp > 0) return;
  double end = static_cast<double>(of_end[2 * lane]) + of_end[2 * lane + 1];
  const double own[2] = {of_c[2 * lane], of_c[2 * lane + 1]};
  double sum = own[0] + own[1];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) end += __shfl_xor_sync(0xffffffffU, end, step);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double later = __shfl_down_sync(0xffffffffU, sum, step);
    if (lane + step < 32) sum += later;
  }
  end += static_cast<double>(a.kept[chunk]) * a.kept_gradient[chunk];
  double* const to = a.log_decay_gradient + head * a.length;
  const std::int64_t t = n * kT + 2 * lane;
  if (t < a.length) to[t] = sum + end;
  if (t + 1 < a.length) to[t + 1] = sum - own[0] + end;
}

template <int Tiles>
Status launch_states_gradient(const DeltaStatesGradient& a, Stream stream) {
  const int depth = depth_of(a.rows);
  const int stages = stages_that_fit(StateMemory::bytes(depth, 2));
  const int bytes = StateMemory::bytes(depth, stages);
  const Status allowed = allow_memory(states_gradient_kernel<Tiles>, bytes);
  if (allowed != Status::ok) return allowed;
  const dim3 blocks(static_cast<unsigned>(delta_state_parts(a.columns)), static_cast<unsigned>(a.heads));
  states_gradient_kernel<Tiles><<<blocks, kThreads, bytes, stream>>>(a, stages);
  return launched();
}

}  // namespace

std::int64_t delta_state_parts(std::int64_t columns) { return (columns + kColumns - 1) / kColumns; }

Status delta_states_gradient(const DeltaStatesGradient& a, Stream stream) {
  if (!is_size(a.heads) || a.heads >= 65536 || !is_size(a.chunks) || !widths_fit(a.rows, a.columns) ||
      a.erased == nullptr || a.query_decayed == nullptr || a.key_decayed == nullptr || a.mixed_gradient == nullptr ||
      a.kept == nullptr || a.before == nullptr || a.updates_gradient == nullptr || a.after_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  return a.rows <= 8 * 16 ? launch_states_gradient<1>(a, stream) : launch_states_gradient<2>(a, stream);
}

bool delta_states_gradient_fits(std::int64_t rows) {
  return rows > 0 && rows <= kMostDeltaRows && is_available() &&
         shared_memory_holds(StateMemory::bytes(depth_of(rows), 1));
}

Status delta_triangle_gradient(const DeltaTriangleGradient& a, Stream stream) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  if (!is_size(a.heads) || !is_size(a.length) || a.heads * chunks >= kMostBlocks || a.cumulative == nullptr ||
      a.products == nullptr || a.triangles == nullptr || a.scores == nullptr || a.triangle == nullptr ||
      a.of_pairs == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  triangle_gradient_kernel<<<static_cast<unsigned>(a.heads * chunks), kThreads, 0, stream>>>(a);
  return launched();
}

Status delta_rows_gradient(const DeltaRowsGradient& a, Stream stream) {
  const std::int64_t chunks = (a.length + kT - 1) / kT;
  const bool sizes = is_size(a.batch) && is_size(a.heads) && is_size(a.groups) && a.heads % a.groups == 0 &&
                     is_size(a.length) && widths_fit(a.rows, a.columns) && a.batch * a.heads * chunks < kMostBlocks;
  if (!sizes || !readable(a.query) || !readable(a.key) || !readable(a.value) || a.cumulative == nullptr ||
      a.kept == nullptr || a.of_pairs == nullptr || a.of_keys == nullptr || a.of_both == nullptr ||
      a.of_states == nullptr || a.of_updates == nullptr || a.right == nullptr || a.query_gradient == nullptr ||
      a.key_gradient == nullptr || a.value_gradient == nullptr ||
      (a.kept_gradient == nullptr) != (a.log_decay_gradient == nullptr)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  rows_gradient_kernel<<<static_cast<unsigned>(a.batch * a.heads * chunks), kThreads, 0, stream>>>(a);
  return launched();
}

}  // namespace foxscope::kernels::cuda
