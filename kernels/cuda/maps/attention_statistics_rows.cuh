// Rows of attention: what the kernels of attention_statistics.cu read, and sums over single rows. Private to that file.
#pragma once

#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/map_tiles.cuh"
#include "kernels/cuda/maps/statistics_sums.cuh"

namespace foxscope::kernels::cuda::maps {
namespace {

constexpr double kLogarithmOf2 = 0.6931471805599453;
constexpr double kNegligible = -40.0;  // log2 of an entry
constexpr double kWellKnown = 1.0 / 16.0;
constexpr unsigned kThreads = 256;

/// What the row pass makes of a row: its gate relative to its block of 64 in two parts, -lse, both in units of log2,
/// and 1 / beside.
struct __align__(16) RowTerms {
  float gate_high = 0;
  float gate_low = 0;
  float negative_lse = 0;
  float weight = 0;
};

/// The largest of 32 rows: the term and the norm of a bound (Bound), and the weight.
struct __align__(16) StripBound {
  double term = 0;
  float norm = 0;
  float weight = 0;
};

struct StatisticsParameters {
  HeadParameters head;
  int length = 0;
  int window = 0;
  int row_begin = 0, row_end = 0;
  int steps = 32;       ///< of a work item
  int query_slots = 0;  ///< blocks of 64 queries in shared memory
  int key_slots = 0;
  float sink = -INFINITY;
  const std::int32_t* token = nullptr;  ///< [L] that each position reads, or null
  double* beside = nullptr;             ///< [L] what a row has beside key 0
  RowTerms* rows = nullptr;             ///< [L]
  StripBound* strips = nullptr;         ///< [L / 32, rounded up]
  FixedSums sums;
  float* normalizer = nullptr;  ///< [L] of log_normalizer_without_gate
};

/// The arrays of one head of several.
struct HeadArrays {
  const void* query = nullptr;
  const void* key = nullptr;
  const double* gate = nullptr;
  const float* lse = nullptr;
  const float2* terms = nullptr;
  const float* key_norm = nullptr;
  const float* row_norm = nullptr;
  float sink = -INFINITY;
};

/// Several heads, which differ in their arrays alone. Each has its own part of the workspace.
struct StatisticsBatch {
  StatisticsParameters first;
  std::int64_t stride = 0;  ///< bytes from a head's part of the workspace to the next one's
  HeadArrays head[AttentionStatistics::kMostHeads];
};

template <typename T>
__device__ __forceinline__ T* shifted(T* at, std::int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(at) + bytes);
}

__device__ __forceinline__ StatisticsParameters of_head(const StatisticsBatch& batch, unsigned index) {
  StatisticsParameters p = batch.first;
  const HeadArrays& head = batch.head[index];
  p.head.query = head.query;
  p.head.key = head.key;
  p.head.gate = head.gate;
  p.head.lse = head.lse;
  p.head.terms = head.terms;
  p.head.key_norm = head.key_norm;
  p.head.row_norm = head.row_norm;
  p.sink = head.sink;
  const std::int64_t bytes = index * batch.stride;
  p.beside = shifted(p.beside, bytes);
  p.rows = shifted(p.rows, bytes);
  p.strips = shifted(p.strips, bytes);
  p.sums.sum = shifted(p.sums.sum, bytes);
  p.sums.unknown = shifted(p.sums.unknown, bytes);
  return p;
}

/// Rows, products and keys of a warp.
template <class Dot>
struct Reader {
  Dot dot;
  LogTerms terms;
  KeyBuffers<Dot::kStages> buffers;
  WarpRows rows;
  Bound bound;
  int row = 0;  ///< of the thread's line 0

  __device__ __forceinline__ char* start(const StatisticsParameters& p, int block_row, char* memory) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    rows.begin = block_row + warp * kWarpRows;
    rows.end = min(rows.begin + kWarpRows, p.row_end);
    row = rows.begin + static_cast<int>(threadIdx.x) % 32 / 4;
    buffers.start(memory, p.head);
    char* next = memory + KeyBuffers<Dot::kStages>::bytes(p.head.depth, p.head.float32);
    const auto block_rows = static_cast<int>(blockDim.x);
    if constexpr (Dot::kQueriesInMemory) {
      if (p.head.query != nullptr) load_rows(p.head, p.head.query, block_row, block_rows, p.length, next);
    }
    dot.start(p.head, next, row, p.length);
    if constexpr (Dot::kQueriesInMemory) next += block_rows * tile_stride(p.head.depth, p.head.float32);
    terms.start(p.head, block_row, row, p.length);
    if (rows.begin < rows.end) bound.start(p.head, rows);
    return next;
  }

  /// The tiles that the warp needs, of 32.
  __device__ __forceinline__ unsigned needed(const StatisticsParameters& p, int first_tile, double limit) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int tile = first_tile + lane;
    const int begin = tile * kTileKeys;
    const int end = min(begin + kTileKeys, p.length);
    bool wanted = begin < end && rows.sees(begin, end, p.window);
    if (wanted) wanted = !bound.below(p.head, tile, p.length, limit);
    return __ballot_sync(0xffffffffU, wanted);
  }

  /// log2 of the entries of a step; absent ones -infinity.
  __device__ __forceinline__ void logarithms(const StatisticsParameters& p, int tile, int buffer, int first,
                                             Step& s) const {
    dot.step(p.head, buffers.keys(buffer), first, s);
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
    const int key = tile * kTileKeys + first;
    const bool cut = rows.cut(key, key + kStepKeys, p.window);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int offset = n / 4 % 2 * 8 + column + n % 2;
      const int line = n / 8 * 2 + n % 4 / 2;
      const int distance = row + 8 * line - (key + offset);
      float& x = s[n / 8][n / 4 % 2][n % 4];
      x = terms.finish(terms.begin(x, p.head.scale, buffers.terms(buffer)[first + offset], line), line);
      if (cut && (distance < 0 || (p.window > 0 && distance >= p.window))) x = -INFINITY;
    }
  }
};

/// The masks of all warps of the block.
__device__ __forceinline__ unsigned combined(unsigned mine, unsigned* shared) {
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0 && mine != 0) atomicOr(shared, mine);
  __syncthreads();
  return *shared;
}

enum class RowSum { log_normalizer, beside_first };

/// A running log-sum-exp of a row, or a plain sum where the reference is fixed at 0; of a thread's keys alone.
struct RunningSum {
  float reference = 0;
  float part = 0;
  double sum = 0;

  __device__ __forceinline__ void raise(float largest) {
    if (largest <= reference) return;  // not for NaN, which then is the reference and every later sum
    const float factor = reference == -INFINITY ? 0.0F : exp2_fast(reference - largest);
    part *= factor;
    sum *= static_cast<double>(factor);
    reference = largest;
  }
  __device__ __forceinline__ void add(float x) { part += reference == -INFINITY ? 0.0F : exp2_fast(x - reference); }
  __device__ __forceinline__ void close() {
    sum += static_cast<double>(part);
    part = 0;
  }
};

/// One block has its rows to itself and goes over all their keys.
template <class Dot, RowSum Kind>
__global__ void __launch_bounds__(kMostWarps * 32, 2) row_sums(const __grid_constant__ StatisticsBatch batch) {
  const StatisticsParameters p = of_head(batch, blockIdx.y);
  extern __shared__ __align__(16) char memory[];
  auto* mask = reinterpret_cast<unsigned*>(memory);
  Reader<Dot> reader;
  // Later rows see more keys: they go first.
  const int block_row = p.row_begin + static_cast<int>((gridDim.x - 1 - blockIdx.x) * blockDim.x);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double limit = -INFINITY;
  if constexpr (Kind == RowSum::beside_first) {
    const int mine = block_row + static_cast<int>(threadIdx.x);
    const double beside = mine < p.row_end ? p.beside[mine] : 1.0;
    if (__syncthreads_or(beside < kWellKnown ? 1 : 0) == 0) return;
    // Entries that are left out are small beside the row; here they have to be small beside what key 0 leaves of it.
    limit = beside > 0 ? max(-120.0, kNegligible + log2(beside)) : -120.0;
    for (int lanes = 16; lanes > 0; lanes /= 2) limit = fmin(limit, __shfl_xor_sync(0xffffffffU, limit, lanes));
  }
  reader.start(p, block_row, memory + 16);
  RunningSum line[4];
#pragma unroll
  for (RunningSum& sum : line) sum.reference = Kind == RowSum::log_normalizer ? -INFINITY : 0.0F;
  const int tiles = (min(block_row + static_cast<int>(blockDim.x), p.row_end) + kTileKeys - 1) / kTileKeys;
  for (int base = 0; base < tiles; base += 32) {
    const unsigned mine = reader.rows.begin < reader.rows.end ? reader.needed(p, base, limit) : 0U;
    const unsigned all = combined(mine, mask);
    for_tiles<Dot::kStages>(
        all, [&](int n, int buffer) { reader.buffers.load(p.head, base + n, p.length, buffer); },
        [&](int n, int buffer) {
          if ((mine >> n & 1U) == 0) return;
          const int tile = base + n;
          reader.terms.set_tile(p.head, tile, p.length);
          const int end = min(kTileKeys, reader.rows.end - tile * kTileKeys);
          for (int first = 0; first < end; first += kStepKeys) {
            Step s;
            reader.logarithms(p, tile, buffer, first, s);
            if (Kind == RowSum::beside_first && tile == 0 && first == 0 && lane % 4 == 0) {
#pragma unroll
              for (int i = 0; i < 4; ++i) s[i / 2][0][i % 2 * 2] = -INFINITY;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float x[4] = {s[i / 2][0][i % 2 * 2], s[i / 2][0][i % 2 * 2 + 1], s[i / 2][1][i % 2 * 2],
                                  s[i / 2][1][i % 2 * 2 + 1]};
              if constexpr (Kind == RowSum::log_normalizer) {
                line[i].raise(maximum(maximum(x[0], x[1]), maximum(x[2], x[3])));
              }
#pragma unroll
              for (const float entry : x) line[i].add(entry);
            }
          }
#pragma unroll
          for (RunningSum& sum : line) sum.close();
        });
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float reference = line[i].reference;
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      reference = maximum(reference, __shfl_xor_sync(0xffffffffU, reference, lanes));
    }
    double sum = line[i].sum;
    if (line[i].reference != reference) sum *= static_cast<double>(exp2_fast(line[i].reference - reference));
    for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
    const int row = reader.row + 8 * i;
    if (row >= reader.rows.end || lane % 4 != 0) continue;
    if constexpr (Kind == RowSum::log_normalizer) {
      p.normalizer[row] = static_cast<float>((static_cast<double>(reference) + log2(sum)) * kLogarithmOf2);
    } else {
      p.beside[row] = row == 0 ? 1.0 : sum;
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::cuda::maps
