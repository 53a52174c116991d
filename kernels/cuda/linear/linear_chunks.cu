// Each step is bound by its memory: what can be read once is, and sums are taken in one order.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/linear/linear_chunks.h"
#include "kernels/cuda/row_access.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kT = static_cast<int>(kLinearChunk);
constexpr int kThreads = 256;
constexpr int kOfThread = 16;           // entries of a row of a chunk's matrix
constexpr int kOfRow = kT / kOfThread;  // threads of it
constexpr int kWarps = kThreads / 32;
constexpr int kMostWidth = 1024;   // of scaled rows
constexpr int kMostColumns = 256;  // of decayed_mix
constexpr int kRowsOfBlock = 64;   // of scaled rows
constexpr int kMixThreads = 128;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 31;
static_assert(kThreads == kT * kOfRow);

struct Entries {
  float of[kOfThread];
};

__device__ __forceinline__ Entries load_entries(const Bfloat16* from) {
  Entries x;
#pragma unroll
  for (int piece = 0; piece < kOfThread / 8; ++piece) {
    const uint4 words = reinterpret_cast<const uint4*>(from)[piece];
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 pair = __bfloat1622float2(pairs[p]);
      x.of[piece * 8 + 2 * p] = pair.x;
      x.of[piece * 8 + 2 * p + 1] = pair.y;
    }
  }
  return x;
}

__device__ __forceinline__ void store_entries(const Entries& x, Bfloat16* to) {
#pragma unroll
  for (int piece = 0; piece < kOfThread / 8; ++piece) {
    uint4 words;
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
#pragma unroll
    for (int p = 0; p < 4; ++p) pairs[p] = __floats2bfloat162_rn(x.of[piece * 8 + 2 * p], x.of[piece * 8 + 2 * p + 1]);
    reinterpret_cast<uint4*>(to)[piece] = words;
  }
}

/// exp(min(0, x)); NaN stays.
__device__ __forceinline__ float decay(float x) { return __expf(x > 0.0F ? 0.0F : x); }

/// A block is a chunk of a head, a thread 16 entries of a row.
__global__ void __launch_bounds__(kThreads) scores_kernel(const __grid_constant__ DecayedScores a) {
  __shared__ float c[kT];
  __shared__ float beta[kT];
  const std::int64_t of_head = blockIdx.x;  // (b H + h) N + n
  const std::int64_t n = of_head % a.chunks;
  const std::int64_t head = of_head / a.chunks;
  const std::int64_t b = head / a.heads;
  const std::int64_t group = head % a.heads / (a.heads / a.groups);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kT) {
    c[thread] = a.cumulative[of_head * kT + thread];
    beta[thread] = a.beta[of_head * kT + thread];
  }
  __syncthreads();
  const int i = thread / kOfRow;
  const int first = thread % kOfRow * kOfThread;
  const std::int64_t place = i * kT + first;
  Entries x;
  if (first <= i) {
    x = load_entries(static_cast<const Bfloat16*>(a.product) + ((b * a.groups + group) * a.chunks + n) * kT * kT +
                     place);
#pragma unroll
    for (int e = 0; e < kOfThread; ++e) {
      const int j = first + e;
      x.of[e] = j <= i ? x.of[e] * decay(c[i] - c[j]) * beta[j] : 0.0F;
    }
  } else {
#pragma unroll
    for (int e = 0; e < kOfThread; ++e) x.of[e] = 0;
  }
  store_entries(x, static_cast<Bfloat16*>(a.scores) + of_head * kT * kT + place);
}

/// A block is a chunk of a group: its heads' gradients come one after the other and are summed.
__global__ void __launch_bounds__(kThreads) scores_gradient_kernel(const __grid_constant__ DecayedScoresGradient a) {
  __shared__ float c[kT];
  __shared__ float beta[kT];
  __shared__ float of_row[kT];
  __shared__ float of_column[kWarps][kT];
  const std::int64_t n = blockIdx.x % a.chunks;
  const std::int64_t group = blockIdx.x / a.chunks % a.groups;
  const std::int64_t b = blockIdx.x / a.chunks / a.groups;
  const std::int64_t shared_by = a.heads / a.groups;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int i = thread / kOfRow;
  const int first = thread % kOfRow * kOfThread;
  const std::int64_t place = i * kT + first;
  const std::int64_t of_group = ((b * a.groups + group) * a.chunks + n) * kT * kT + place;
  const Entries product = load_entries(static_cast<const Bfloat16*>(a.product) + of_group);
  Entries sum{};
  for (std::int64_t h = group * shared_by; h < (group + 1) * shared_by; ++h) {
    const std::int64_t of_head = (b * a.heads + h) * a.chunks + n;
    if (thread < kT) {
      c[thread] = a.cumulative[of_head * kT + thread];
      beta[thread] = a.beta[of_head * kT + thread];
    }
    __syncthreads();
    Entries x = load_entries(static_cast<const Bfloat16*>(a.scores_gradient) + of_head * kT * kT + place);
    float row = 0;
#pragma unroll
    for (int e = 0; e < kOfThread; ++e) {
      const int j = first + e;
      const float decayed = j <= i ? x.of[e] * decay(c[i] - c[j]) : 0.0F;
      sum.of[e] += decayed * beta[j];
      x.of[e] = decayed * product.of[e];
      row += x.of[e] * beta[j];
    }
#pragma unroll
    for (int step = 1; step < kOfRow; step *= 2) row += __shfl_xor_sync(0xffffffffU, row, step);
    if (thread % kOfRow == 0) of_row[i] = row;
#pragma unroll
    for (int e = 0; e < kOfThread; ++e) {
#pragma unroll
      for (int step = kOfRow; step < 32; step *= 2) x.of[e] += __shfl_xor_sync(0xffffffffU, x.of[e], step);
      if (lane < kOfRow) of_column[thread / 32][first + e] = x.of[e];
    }
    __syncthreads();
    if (thread < kT) {
      float column = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) column += of_column[warp][thread];
      a.beta_gradient[of_head * kT + thread] = column;
      a.cumulative_gradient[of_head * kT + thread] = of_row[thread] - beta[thread] * column;
    }
    __syncthreads();
  }
  store_entries(sum, static_cast<Bfloat16*>(a.product_gradient) + of_group);
}

/// A block is some rows of a head, a thread four numbers of each of some.
__global__ void __launch_bounds__(kThreads) scaled_rows_kernel(const __grid_constant__ ScaledRows a) {
  const std::int64_t b = blockIdx.z;
  const std::int64_t h = blockIdx.y;
  const float* const from = a.rows + b * a.batch_stride + h / (a.heads / a.groups) * a.group_stride;
  const float* const factors = a.factor + (b * a.heads + h) * a.padded;
  const std::int64_t first = a.positions_first ? b * a.padded * a.heads + h : (b * a.heads + h) * a.padded;
  const std::int64_t step = a.positions_first ? a.heads : 1;
  const auto pieces = static_cast<unsigned>(a.width / 4);
  const std::int64_t begin = std::int64_t{blockIdx.x} * kRowsOfBlock;
#pragma unroll 4
  for (unsigned piece = threadIdx.x; piece < kRowsOfBlock * pieces; piece += kThreads) {
    const std::int64_t t = begin + piece / pieces;
    if (t >= a.padded) break;
    const unsigned column = piece % pieces * 4;
    float4 x{0, 0, 0, 0};
    if (t < a.length) x = *reinterpret_cast<const float4*>(from + t * a.row_stride + column);
    const float factor = factors[t];
    uint2 words;
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
    pairs[0] = __floats2bfloat162_rn(x.x * factor, x.y * factor);
    pairs[1] = __floats2bfloat162_rn(x.z * factor, x.w * factor);
    *reinterpret_cast<uint2*>(static_cast<Bfloat16*>(a.scaled) + (first + t * step) * a.width + column) = words;
  }
}

/// A block is a chunk of a head, a warp 16 of its rows. M is made where the product takes it from, in registers.
__global__ void __launch_bounds__(kMixThreads, 5) decayed_mix_kernel(const __grid_constant__ DecayedMix a) {
  constexpr int kBlock = 64;          // columns at a time
  constexpr int kPitch = kBlock + 8;  // of rows in shared memory, against bank conflicts
  constexpr int kOfRow8 = kBlock / 8;
  constexpr int kOfRow4 = kBlock / 4;
  static_assert(kBlock == kT);
  __shared__ __align__(16) float unrounded[kT * kBlock];  // v
  __shared__ __align__(16) Bfloat16 values[kT * kPitch];
  __shared__ __align__(16) Bfloat16 products[kT * kPitch];
  __shared__ __align__(16) Bfloat16 outputs[kT * kPitch];  // what is carried, and in its place y
  __shared__ float c[kT];
  __shared__ float beta[kT];
  const std::int64_t n = blockIdx.x;
  const std::int64_t h = blockIdx.y;
  const std::int64_t b = blockIdx.z;
  const std::int64_t group = h / (a.heads / a.groups);
  const std::int64_t of_head = (b * a.heads + h) * a.chunks + n;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int first_row = thread / 32 * 16;
  // The place of a thread's eight numbers, and of its four.
  constexpr int kRows8 = kMixThreads / kOfRow8;
  constexpr int kRows4 = kMixThreads / kOfRow4;
  const int row8 = thread / kOfRow8;
  const int column8 = thread % kOfRow8 * 8;
  const int row4 = thread / kOfRow4;
  const int column4 = thread % kOfRow4 * 4;
  // Everything is on its way from memory before the first of it is used.
  const auto* product =
      static_cast<const Bfloat16*>(a.product) + ((b * a.groups + group) * a.chunks + n) * kT * kT + row8 * kT + column8;
#pragma unroll
  for (int row = 0; row < kT; row += kRows8) {
    if (column8 > ((row + row8) | 15)) continue;
    copy_async<16>(products + (row + row8) * kPitch + column8, product + row * kT, true);
  }
  commit();
  const std::int64_t width = a.heads * a.columns;
  const std::int64_t at = (b * a.chunks + n) * kT * width + h * a.columns;
  const auto rows = static_cast<int>(min(a.length - n * kT, std::int64_t{kT}));
  const float* const from = a.value.data + b * a.value.batch_stride + h * a.value.head_stride +
                            (n * kT + row4) * a.value.row_stride + column4;
  std::uint32_t m[kT / 16][4];
  for (int begin = 0; begin < a.columns; begin += kBlock) {
    if (begin > 0) __syncthreads();
    const auto* carried = static_cast<const Bfloat16*>(a.carried) + at + row8 * width + begin + column8;
#pragma unroll
    for (int row = 0; row < kT; row += kRows8, carried += kRows8 * width) {
      copy_async<16>(outputs + (row + row8) * kPitch + column8, carried, begin + column8 < a.columns);
    }
    const float* v = from + begin;
#pragma unroll
    for (int row = 0; row < kT; row += kRows4, v += kRows4 * a.value.row_stride) {
      copy_async<16>(unrounded + (row + row4) * kBlock + column4, v, row + row4 < rows && begin + column4 < a.columns);
    }
    commit();
    if (begin == 0) {
      if (thread < kT) {
        c[thread] = a.cumulative[of_head * kT + thread];
        beta[thread] = a.beta[of_head * kT + thread];
      }
      wait<1>();
      __syncthreads();
      // Rows lane / 4 and 8 further, two neighbouring columns, as the product takes them.
#pragma unroll
      for (int k = 0; k < kT / 16; ++k) {
        if (k * 16 > first_row) break;  // keys after the warp's rows
        load_fragment(products + (first_row + lane % 16) * kPitch + k * 16 + lane / 16 * 8, m[k]);
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int i = first_row + lane / 4 + part % 2 * 8;
          const int j = k * 16 + part / 2 * 8 + lane % 4 * 2;
          float low;
          float high;
          widen(m[k][part], low, high);
          low = j <= i ? low * decay(c[i] - c[j]) * beta[j] : 0.0F;
          high = j + 1 <= i ? high * decay(c[i] - c[j + 1]) * beta[j + 1] : 0.0F;
          m[k][part] = narrow(low, high);
        }
      }
    }
    wait<0>();
#pragma unroll
    for (int row = row4; row < kT; row += kRows4) {  // what the thread itself has copied
      const float4 x = *reinterpret_cast<const float4*>(unrounded + row * kBlock + column4);
      *reinterpret_cast<uint2*>(values + row * kPitch + column4) = {narrow(x.x, x.y), narrow(x.z, x.w)};
    }
    __syncthreads();
    float sum[kBlock / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kT / 16; ++k) {
      if (k * 16 > first_row) break;
#pragma unroll
      for (int tile = 0; tile < kBlock / 8; tile += 2) {
        std::uint32_t v[4];
        load_transposed(values + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * kPitch + tile * 8 + lane / 16 * 8, v);
        multiply(sum[tile], m[k], v[0], v[1]);
        multiply(sum[tile + 1], m[k], v[2], v[3]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = first_row + lane / 4 + half * 8;
      const float factor = __expf(c[i]);
#pragma unroll
      for (int tile = 0; tile < kBlock / 8; ++tile) {
        auto* const pair = reinterpret_cast<std::uint32_t*>(outputs + i * kPitch + tile * 8 + lane % 4 * 2);
        float low;
        float high;
        widen(*pair, low, high);
        *pair = narrow(fmaf(low, factor, sum[tile][2 * half]), fmaf(high, factor, sum[tile][2 * half + 1]));
      }
    }
    __syncwarp();
    // A warp's rows are its own, so that it stores them as wide as memory takes them.
    if (begin + column8 >= a.columns) continue;
    auto* mixed = static_cast<Bfloat16*>(a.mixed) + at + (first_row + lane / kOfRow8) * width + begin + column8;
#pragma unroll
    for (int row = lane / kOfRow8; row < 16; row += 32 / kOfRow8, mixed += 32 / kOfRow8 * width) {
      *reinterpret_cast<uint4*>(mixed) =
          *reinterpret_cast<const uint4*>(outputs + (first_row + row) * kPitch + column8);
    }
  }
}

/// A warp is a row of a group.
__global__ void __launch_bounds__(kThreads) scaled_rows_gradient_kernel(const __grid_constant__ ScaledRowsGradient a) {
  constexpr int kPieces = kMostWidth / 128;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;  // (b G + g) padded + t
  if (row >= a.batch * a.groups * a.padded) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t t = row % a.padded;
  const std::int64_t group = row / a.padded % a.groups;
  const std::int64_t b = row / a.padded / a.groups;
  const std::int64_t shared_by = a.heads / a.groups;
  float4 x[kPieces];
  float4 sum[kPieces];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    x[p] = sum[p] = float4{0, 0, 0, 0};
    if (t < a.length && column < a.width) {
      x[p] = *reinterpret_cast<const float4*>(a.rows + b * a.batch_stride + group * a.group_stride + t * a.row_stride +
                                              column);
    }
  }
  for (std::int64_t h = group * shared_by; h < (group + 1) * shared_by; ++h) {
    const std::int64_t of_head = (b * a.heads + h) * a.padded + t;
    const float factor = a.factor[of_head];
    float dot = 0;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int column = (p * 32 + lane) * 4;
      if (column >= a.width) break;
      const uint2 words =
          *reinterpret_cast<const uint2*>(static_cast<const Bfloat16*>(a.scaled_gradient) + of_head * a.width + column);
      const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
      const float2 low = __bfloat1622float2(pairs[0]);
      const float2 high = __bfloat1622float2(pairs[1]);
      dot += low.x * x[p].x + low.y * x[p].y + high.x * x[p].z + high.y * x[p].w;
      sum[p].x += low.x * factor;
      sum[p].y += low.y * factor;
      sum[p].z += high.x * factor;
      sum[p].w += high.y * factor;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffU, dot, step);
    if (lane == 0) a.factor_gradient[of_head] = dot;
  }
  if (t >= a.length) return;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int column = (p * 32 + lane) * 4;
    if (column >= a.width) break;
    *reinterpret_cast<float4*>(a.rows_gradient + ((b * a.groups + group) * a.length + t) * a.width + column) = sum[p];
  }
}

constexpr int kAhead = 8;  // chunks that are read before they are needed

/// Where a state's numbers and what is kept of them lie, a chunk after the other.
struct StatePlace {
  std::int64_t first;   ///< of the first chunk
  std::int64_t stride;  ///< from one chunk to the next
  std::int64_t kept;
  std::int64_t kept_stride;

  /// @param row, column  of the state of head `head`
  __device__ __forceinline__ StatePlace(const PassedStates& a, std::int64_t head, std::int64_t row,
                                        std::int64_t column) {
    const std::int64_t size = a.rows * a.columns;
    const std::int64_t inside = a.heads_inside;
    stride = size * (inside > 0 ? inside : 1);
    first = inside > 0 ? head / inside * a.chunks * stride + (row * inside + head % inside) * a.columns + column
                       : head * a.chunks * size + row * a.columns + column;
    kept = head * a.chunks * (a.kept_by_row ? a.rows : 1) + (a.kept_by_row ? row : 0);
    kept_stride = a.kept_by_row ? a.rows : 1;
  }
};

/// A thread is two columns of a state's row.
__global__ void __launch_bounds__(kThreads) pass_states_kernel(const __grid_constant__ PassedStates a) {
  const std::int64_t size = a.rows * a.columns;
  const std::int64_t place = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2;
  if (place >= size) return;
  const std::int64_t head = blockIdx.y;
  const StatePlace at(a, head, place / a.columns, place % a.columns);
  const auto* written = reinterpret_cast<const __nv_bfloat162*>(static_cast<const Bfloat16*>(a.written) + at.first);
  auto* before = reinterpret_cast<__nv_bfloat162*>(static_cast<Bfloat16*>(a.before) + at.first);
  const float* kept = a.kept + at.kept;
  float2 state{0, 0};
  if (a.first != nullptr) state = *reinterpret_cast<const float2*>(a.first + head * size + place);
  for (std::int64_t begin = 0; begin < a.chunks; begin += kAhead) {
    __nv_bfloat162 next[kAhead];
    float factor[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n >= a.chunks) break;
      next[n] = written[(begin + n) * at.stride / 2];
      factor[n] = kept[(begin + n) * at.kept_stride];
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n >= a.chunks) break;
      before[(begin + n) * at.stride / 2] = __floats2bfloat162_rn(state.x, state.y);
      const float2 more = __bfloat1622float2(next[n]);
      state.x = state.x * factor[n] + more.x;
      state.y = state.y * factor[n] + more.y;
    }
  }
  if (a.last != nullptr) *reinterpret_cast<float2*>(a.last + head * size + place) = state;
}

__global__ void __launch_bounds__(kThreads) pass_states_back_kernel(const __grid_constant__ PassedStatesGradient a) {
  const std::int64_t place = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2;
  if (place >= a.rows * a.columns) return;
  const StatePlace at(a, blockIdx.y, place / a.columns, place % a.columns);
  const auto* from =
      reinterpret_cast<const __nv_bfloat162*>(static_cast<const Bfloat16*>(a.before_gradient) + at.first);
  auto* to = reinterpret_cast<__nv_bfloat162*>(static_cast<Bfloat16*>(a.written_gradient) + at.first);
  const float* kept = a.kept + at.kept;
  float2 state{0, 0};
  for (std::int64_t end = a.chunks; end > 0; end -= kAhead) {
    __nv_bfloat162 next[kAhead];
    float factor[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (end - n <= 0) break;
      next[n] = from[(end - n - 1) * at.stride / 2];
      factor[n] = kept[(end - n - 1) * at.kept_stride];
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (end - n <= 0) break;
      to[(end - n - 1) * at.stride / 2] = __floats2bfloat162_rn(state.x, state.y);
      const float2 more = __bfloat1622float2(next[n]);
      state.x = state.x * factor[n] + more.x;
      state.y = state.y * factor[n] + more.y;
    }
  }
}

/// kept_gradient = <what came back to S_(n+1), S_n>; a block is a chunk of a head, a warp some rows of the state.
__global__ void __launch_bounds__(kThreads) kept_rows_gradient_kernel(const __grid_constant__ PassedStatesGradient a) {
  const std::int64_t n = blockIdx.x % a.chunks;
  const std::int64_t head = blockIdx.x / a.chunks;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row = threadIdx.x / 32; row < a.rows; row += kWarps) {
    const StatePlace at(a, head, row, 0);
    const std::int64_t first = (at.first + n * at.stride) / 2;
    const auto* states = static_cast<const __nv_bfloat162*>(a.before) + first;
    const auto* gradients = static_cast<const __nv_bfloat162*>(a.written_gradient) + first;
    float sum = 0;
    for (std::int64_t pair = lane; pair < a.columns / 2; pair += 32) {
      const float2 x = __bfloat1622float2(states[pair]);
      const float2 y = __bfloat1622float2(gradients[pair]);
      sum += x.x * y.x + x.y * y.y;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
    if (lane == 0) a.kept_gradient[blockIdx.x * a.rows + row] = sum;
  }
}

/// The same where a chunk has one number.
__global__ void __launch_bounds__(kThreads) kept_gradient_kernel(const __grid_constant__ PassedStatesGradient a) {
  const StatePlace begin(a, blockIdx.x / a.chunks, 0, 0);
  const std::int64_t first = (begin.first + blockIdx.x % a.chunks * begin.stride) / 2;
  const auto* states = static_cast<const __nv_bfloat162*>(a.before) + first;
  const auto* gradients = static_cast<const __nv_bfloat162*>(a.written_gradient) + first;
  const auto pairs = static_cast<unsigned>(a.columns / 2);  // of a row
  const auto row_stride = static_cast<unsigned>((a.heads_inside > 0 ? a.heads_inside : 1) * pairs);
  float sum = 0;
#pragma unroll 8
  for (unsigned e = threadIdx.x; e < static_cast<unsigned>(a.rows) * pairs; e += kThreads) {
    const std::int64_t place = std::int64_t{e / pairs} * row_stride + e % pairs;
    const float2 x = __bfloat1622float2(states[place]);
    const float2 y = __bfloat1622float2(gradients[place]);
    sum += x.x * y.x + x.y * y.y;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  __shared__ float of_warp[kWarps];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += of_warp[warp];
  a.kept_gradient[blockIdx.x] = sum;
}

bool is_size(std::int64_t size) { return size >= 1 && size < kMostBlocks; }

bool heads_fit(std::int64_t batch, std::int64_t heads, std::int64_t groups) {
  return is_size(batch) && is_size(heads) && is_size(groups) && heads % groups == 0;
}

unsigned blocks_of(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

bool is_valid(const DecayedScores& a) {
  return heads_fit(a.batch, a.heads, a.groups) && is_size(a.chunks) && a.batch * a.heads * a.chunks < kMostBlocks &&
         a.product != nullptr && a.cumulative != nullptr && a.beta != nullptr;
}

bool is_valid(const ScaledRows& a) {
  const bool aligned = a.width % 4 == 0 && a.batch_stride % 4 == 0 && a.group_stride % 4 == 0 && a.row_stride % 4 == 0;
  return heads_fit(a.batch, a.heads, a.groups) && is_size(a.length) && a.padded >= a.length && is_size(a.width) &&
         a.width <= kMostWidth && a.heads < 65536 && a.batch < 65536 && aligned && a.rows != nullptr &&
         aligned_16(a.rows) && a.factor != nullptr &&
         a.batch * a.heads * a.padded * (a.width / 4) < kMostBlocks * kThreads;
}

bool is_valid(const PassedStates& a) {
  return is_size(a.heads) && a.heads < 65536 && is_size(a.chunks) && is_size(a.rows) && is_size(a.columns) &&
         a.columns % 2 == 0 && a.heads_inside >= 0 && (a.heads_inside == 0 || a.heads % a.heads_inside == 0) &&
         a.kept != nullptr && a.before != nullptr;
}

}  // namespace

Status decayed_scores(const DecayedScores& a, Stream stream) {
  if (!is_valid(a) || a.scores == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  scores_kernel<<<static_cast<unsigned>(a.batch * a.heads * a.chunks), kThreads, 0, stream>>>(a);
  return launched();
}

Status decayed_scores_gradient(const DecayedScoresGradient& a, Stream stream) {
  if (!is_valid(a) || a.scores_gradient == nullptr || a.product_gradient == nullptr ||
      a.cumulative_gradient == nullptr || a.beta_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  scores_gradient_kernel<<<static_cast<unsigned>(a.batch * a.groups * a.chunks), kThreads, 0, stream>>>(a);
  return launched();
}

Status scaled_rows(const ScaledRows& a, Stream stream) {
  if (!is_valid(a) || a.scaled == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const dim3 blocks(blocks_of(a.padded, kRowsOfBlock), static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
  scaled_rows_kernel<<<blocks, kThreads, 0, stream>>>(a);
  return launched();
}

Status scaled_rows_gradient(const ScaledRowsGradient& a, Stream stream) {
  if (!is_valid(a) || a.positions_first || a.scaled_gradient == nullptr || a.rows_gradient == nullptr ||
      a.factor_gradient == nullptr) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  scaled_rows_gradient_kernel<<<blocks_of(a.batch * a.groups * a.padded, kWarps), kThreads, 0, stream>>>(a);
  return launched();
}

Status decayed_mix(const DecayedMix& a, Stream stream) {
  const auto in_fours = [](const HeadRows& x) {
    return x.batch_stride % 4 == 0 && x.head_stride % 4 == 0 && x.row_stride % 4 == 0 && aligned_16(x.data);
  };
  if (!heads_fit(a.batch, a.heads, a.groups) || a.batch >= 65536 || a.heads >= 65536 || !is_size(a.length) ||
      a.chunks != (a.length + kT - 1) / kT || a.chunks >= kMostBlocks || a.columns < 8 || a.columns > kMostColumns ||
      a.columns % 8 != 0 || a.product == nullptr || a.cumulative == nullptr || a.beta == nullptr ||
      a.value.data == nullptr || !in_fours(a.value) || a.carried == nullptr || a.mixed == nullptr ||
      !aligned_16(a.product) || !aligned_16(a.carried) || !aligned_16(a.mixed)) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const dim3 blocks(static_cast<unsigned>(a.chunks), static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch));
  decayed_mix_kernel<<<blocks, kMixThreads, 0, stream>>>(a);
  return launched();
}

Status pass_states(const PassedStates& a, Stream stream) {
  if (!is_valid(a) || a.written == nullptr) return Status::invalid_argument;
  if (!is_available()) return Status::unavailable;
  const dim3 blocks(blocks_of(a.rows * a.columns, 2 * kThreads), static_cast<unsigned>(a.heads));
  pass_states_kernel<<<blocks, kThreads, 0, stream>>>(a);
  return launched();
}

Status pass_states_gradient(const PassedStatesGradient& a, Stream stream) {
  if (!is_valid(a) || a.first != nullptr || a.before_gradient == nullptr || a.written_gradient == nullptr ||
      a.kept_gradient == nullptr || a.heads * a.chunks >= kMostBlocks) {
    return Status::invalid_argument;
  }
  if (!is_available()) return Status::unavailable;
  const dim3 blocks(blocks_of(a.rows * a.columns, 2 * kThreads), static_cast<unsigned>(a.heads));
  pass_states_back_kernel<<<blocks, kThreads, 0, stream>>>(a);
  const auto chunks = static_cast<unsigned>(a.heads * a.chunks);
  if (a.kept_by_row) {
    kept_rows_gradient_kernel<<<chunks, kThreads, 0, stream>>>(a);
  } else {
    kept_gradient_kernel<<<chunks, kThreads, 0, stream>>>(a);
  }
  return launched();
}

}  // namespace foxscope::kernels::cuda
