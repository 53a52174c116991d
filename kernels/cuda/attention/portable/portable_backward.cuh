// The backward of forgetting attention for every card since compute capability 8.0: mma.sync. Private to kernels/cuda.
//
// S and dP are computed transposed, 16 keys a warp and 64 rows, so that P and dS leave the products in the registers
// where those for dV and dK want them. dS alone goes through shared memory, for dQ, of which a warp makes 16 rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda::portable {

static_assert(kRows == kKeys && kRows == kStatisticsRows);

/// With wide heads there is one place for dO, which is copied while dK and dQ are made: 99 KiB is what every card has.
template <int HeadDim>
struct BackwardStorage {
  static constexpr int kGradients = HeadDim > 96 ? 1 : 2;
  static constexpr int kStride = kRows + 8;
  Tile<HeadDim> key, value;
  Tile<HeadDim> query[2];
  Tile<HeadDim> output_gradient[kGradients];
  std::uint16_t logit_gradient[kKeys * kStride];  // dS, a key after the other
  RowStatistics rows[2];
};
static_assert(sizeof(BackwardStorage<128>) <= 99 * 1024 && sizeof(BackwardStorage<96>) <= 99 * 1024);

/// Adds four numbers that lie together.
__device__ __forceinline__ void add_to_memory(float* to, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
#endif
}

/// Starts copying what is known of 64 rows.
__device__ __forceinline__ void load_rows(RowStatistics& to, const RowStatistics& from) {
  constexpr int kChunks = sizeof(RowStatistics) / 16;
  if (threadIdx.x < kChunks) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                     cute::cast_smem_ptr_to_uint(reinterpret_cast<char*>(&to) + 16 * threadIdx.x)),
                 "l"(reinterpret_cast<const char*>(&from) + 16 * threadIdx.x)
                 : "memory");
  }
}

/// One warp's part of the gradients.
template <int HeadDim>
struct BackwardWarp {
  using Storage = BackwardStorage<HeadDim>;
  const BackwardParameters& p;
  Storage& storage;
  int lane, warp;
  int first_key;   // of the thread block
  int key[2];      // of the thread: the rows of its products
  double gate[2];  // of these keys
  float key_gradient[HeadDim / 8][4];
  float value_gradient[HeadDim / 8][4];
  float column_sums[4];

  __device__ BackwardWarp(const BackwardParameters& parameters, Storage& shared, int key_block)
      : p(parameters),
        storage(shared),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        first_key(key_block * kKeys),
        key{first_key + 16 * warp + lane / 4, first_key + 16 * warp + lane / 4 + 8},
        gate{},
        key_gradient{},
        value_gradient{},
        column_sums{} {}

  __device__ void start_head(std::int64_t head) {
    if (p.gate == nullptr) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) gate[r] = p.gate[head * p.length + min(key[r], p.length - 1)];
  }

  /// product = a b^T for the warp's 16 keys and all rows.
  __device__ void multiply_rows(const Tile<HeadDim>& a, const Tile<HeadDim>& b, float (&product)[kRows / 8][4]) const {
#pragma unroll
    for (auto& x : product) x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll
    for (int x = 0; x < HeadDim / 16; ++x) {
      std::uint32_t keys[4];
      a.template fragment<cute::SM75_U32x4_LDSM_N>(16 * warp, 16 * x, keys);
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        std::uint32_t f[4];
        b.template fragment<cute::SM75_U32x4_LDSM_N>(16 * n, 16 * x, f);
        multiply(product[2 * n], keys, f[0], f[2]);
        multiply(product[2 * n + 1], keys, f[1], f[3]);
      }
    }
  }

  /// sum += a b, with 16 columns of a in each of four registers' groups.
  __device__ static void accumulate(const std::uint32_t (&a)[kRows / 16][4], const Tile<HeadDim>& b,
                                    float (&sum)[HeadDim / 8][4]) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
#pragma unroll
      for (int x = 0; x < HeadDim / 16; ++x) {
        std::uint32_t f[4];
        b.template fragment<cute::SM75_U16x8_LDSM_T>(16 * n, 16 * x, f);
        multiply(sum[2 * x], a[n], f[0], f[1]);
        multiply(sum[2 * x + 1], a[n], f[2], f[3]);
      }
    }
  }

  /// Logits become weights.
  __device__ void weigh(float (&logits)[kRows / 8][4], const RowStatistics& rows, int row_block) const {
    const int first_row = row_block * kRows;
    const bool own = first_row == first_key;
    const SplitGate gates[2] = {SplitGate(p.gate == nullptr ? 0 : rows.first_gate - gate[0]),
                                SplitGate(p.gate == nullptr ? 0 : rows.first_gate - gate[1])};
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      const int at = 8 * n + lane % 4 * 2;
      const float2 term = *reinterpret_cast<const float2*>(rows.term + at);
      float2 rest = {0, 0};
      if (own) rest = *reinterpret_cast<const float2*>(rows.rest + at);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const SplitGate& g = gates[x / 2];
        float shift = (x % 2 == 0 ? term.x : term.y) + g.high;
        if (own) shift += (x % 2 == 0 ? rest.x : rest.y) + g.low;
        float exponent = fmaf(logits[n][x], p.scale_log2, shift);
        if (own || p.window_size > 0) {
          const int distance = first_row + at + x % 2 - key[x / 2];
          if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) exponent = -INFINITY;
        }
        logits[n][x] = exp2_fast(exponent);
      }
    }
  }

  /// dS = P (dP - delta), in place of dP.
  __device__ void backward(const float (&weights)[kRows / 8][4], float (&gradients)[kRows / 8][4],
                           const RowStatistics& rows) const {
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      const float2 delta = *reinterpret_cast<const float2*>(rows.delta + 8 * n + lane % 4 * 2);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        gradients[n][x] = weights[n][x] * (gradients[n][x] - (x % 2 == 0 ? delta.x : delta.y));
      }
    }
  }

  /// Packs rows as the left side of a product over rows.
  __device__ static void pack_rows(const float (&x)[kRows / 8][4], std::uint32_t (&packed)[kRows / 16][4]) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &x[2 * n + i / 2][i % 2 * 2];
        packed[n][i] = pack(pair[0], pair[1]);
      }
    }
  }

  /// dS to shared memory.
  __device__ void share(const std::uint32_t (&packed)[kRows / 16][4]) const {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int of_block = 16 * warp + lane / 4 + i % 2 * 8;
        const int row = 16 * n + i / 2 * 8 + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(storage.logit_gradient + of_block * Storage::kStride + row) = packed[n][i];
      }
    }
  }

  __device__ void sum_columns(const std::uint32_t (&packed)[kRows / 16][4]) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) multiply(column_sums, packed[n], 0x3f803f80U, 0x3f803f80U);
  }

  /// dQ of the warp's 16 rows, and their sums of dS, added to memory.
  __device__ void add_query_gradient(std::int64_t head, int row_block) const {
    float gradient[HeadDim / 8][4] = {};
    float row_sums[4] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      std::uint32_t rows[4];
      const int of_block = 16 * n + lane % 8 + lane / 16 * 8;
      const int row = 16 * warp + lane / 8 % 2 * 8;
      cute::SM75_U16x8_LDSM_T::copy(
          *reinterpret_cast<const cute::uint128_t*>(storage.logit_gradient + of_block * Storage::kStride + row),
          rows[0], rows[1], rows[2], rows[3]);
#pragma unroll
      for (int x = 0; x < HeadDim / 16; ++x) {
        std::uint32_t f[4];
        storage.key.template fragment<cute::SM75_U16x8_LDSM_T>(16 * n, 16 * x, f);
        multiply(gradient[2 * x], rows, f[0], f[1]);
        multiply(gradient[2 * x + 1], rows, f[2], f[3]);
      }
      multiply(row_sums, rows, 0x3f803f80U, 0x3f803f80U);
    }
    const std::int64_t piece = (head * p.row_parts + row_block) * (kRows / kSumRows) + warp;
    int* turn = p.turns == nullptr ? nullptr : p.turns + piece;
    const int key_block = first_key / kKeys;
    if (turn != nullptr) {
      if (lane == 0) await_turn(turn, key_block);
      __syncwarp();
    }
    float* to = p.sums + piece * sum_piece(HeadDim);
#pragma unroll
    for (int x = 0; x < HeadDim / 8; ++x) add_to_memory(to + (x * 32 + lane) * 4, gradient[x]);
    if (lane % 4 == 0) {
      atomicAdd(to + kSumRows * HeadDim + lane / 4, row_sums[0]);
      atomicAdd(to + kSumRows * HeadDim + lane / 4 + 8, row_sums[2]);
    }
    if (turn != nullptr) {
      __threadfence();
      __syncwarp();
      if (lane == 0) pass_turn(turn, key_block);
    }
  }

  __device__ void finish_head(std::int64_t head) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (lane % 4 == 0 && key[r] < p.length) p.column_sums[head * p.length + key[r]] = column_sums[2 * r];
    }
    column_sums[0] = column_sums[1] = column_sums[2] = column_sums[3] = 0;
  }

  __device__ void store(const float (&gradient)[HeadDim / 8][4], const MutableTensorView& view, const KeyWork& work,
                        float factor) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (key[r] >= p.length) continue;
      auto* to = static_cast<std::uint16_t*>(view.data) + work.batch * view.batch + work.key_head * view.head +
                 key[r] * view.row + lane % 4 * 2;
#pragma unroll
      for (int x = 0; x < HeadDim / 8; ++x) {
        const std::uint32_t pair = pack(gradient[x][2 * r] * factor, gradient[x][2 * r + 1] * factor);
        if (p.aligned) {
          *reinterpret_cast<std::uint32_t*>(to + 8 * x) = pair;
        } else {
          to[8 * x] = static_cast<std::uint16_t>(pair);
          to[8 * x + 1] = static_cast<std::uint16_t>(pair >> 16);
        }
      }
    }
  }
};

template <int HeadDim>
__global__ void __launch_bounds__(kThreads, HeadDim > 64 ? 2 : 3)
    backward_kernel(const __grid_constant__ BackwardParameters p) {
  extern __shared__ __align__(16) char memory[];
  using Storage = BackwardStorage<HeadDim>;
  auto& storage = *reinterpret_cast<Storage*>(memory);
  int item = static_cast<int>(blockIdx.x);
  if (p.turns != nullptr) {
    // Turns are awaited from thread blocks with smaller items, which must have begun.
    if (threadIdx.x == 0) storage.rows[0].term[0] = __int_as_float(atomicAdd(p.ticket, 1));
    __syncthreads();
    item = __float_as_int(storage.rows[0].term[0]);
    __syncthreads();
  }
  const KeyWork work = find_key_work(p, item);
  BackwardWarp<HeadDim> own(p, storage, work.block);
  const auto load_rows_of = [&](const RowBlocks& at, int slot) {
    const std::int64_t offset = work.batch * p.query.batch + at.flat_head % p.heads * p.query.head;
    storage.query[slot].load(p.query, offset, at.row_block * kRows, p.length, p.aligned);
    load_rows(storage.rows[slot], p.statistics[std::int64_t{at.flat_head} * p.row_parts + at.row_block]);
  };
  const auto load_gradient_of = [&](const RowBlocks& at, int slot) {
    const std::int64_t offset = work.batch * p.output_gradient.batch + at.flat_head % p.heads * p.output_gradient.head;
    storage.output_gradient[slot].load(p.output_gradient, offset, at.row_block * kRows, p.length, p.aligned);
  };
  RowBlocks now(p, work, kPortableTile);
  storage.key.load(p.key, work.batch * p.key.batch + work.key_head * p.key.head, own.first_key, p.length, p.aligned);
  storage.value.load(p.value, work.batch * p.value.batch + work.key_head * p.value.head, own.first_key, p.length,
                     p.aligned);
  load_rows_of(now, 0);
  load_gradient_of(now, 0);
  commit();
  own.start_head(now.flat_head);
  for (int slot = 0; now.valid(); slot ^= 1) {
    const int gradient_slot = Storage::kGradients == 1 ? 0 : slot;
    RowBlocks next = now;
    next.advance(p, work, kPortableTile);
    wait<0>();
    __syncthreads();  // the copies are there, and all are done with what the next ones overwrite
    if (next.valid()) {
      load_rows_of(next, slot ^ 1);
      if constexpr (Storage::kGradients == 2) load_gradient_of(next, slot ^ 1);
    }
    commit();

    float weights[kRows / 8][4];
    own.multiply_rows(storage.key, storage.query[slot], weights);
    own.weigh(weights, storage.rows[slot], now.row_block);
    float gradients[kRows / 8][4];
    own.multiply_rows(storage.value, storage.output_gradient[gradient_slot], gradients);
    own.backward(weights, gradients, storage.rows[slot]);
    std::uint32_t packed[kRows / 16][4];
    own.pack_rows(weights, packed);
    own.accumulate(packed, storage.output_gradient[gradient_slot], own.value_gradient);
    own.pack_rows(gradients, packed);
    own.share(packed);
    __syncthreads();
    if constexpr (Storage::kGradients == 1) {
      if (next.valid()) load_gradient_of(next, 0);
      commit();
    }
    own.accumulate(packed, storage.query[slot], own.key_gradient);
    own.sum_columns(packed);
    own.add_query_gradient(now.flat_head, now.row_block);
    if (now.last_of_head()) {
      own.finish_head(now.flat_head);
      if (next.valid()) own.start_head(next.flat_head);
    }
    now = next;
  }
  own.store(own.value_gradient, p.value_gradient, work, 1);
  own.store(own.key_gradient, p.key_gradient, work, p.scale);
}

template <int HeadDim>
cudaError_t launch_backward(const BackwardParameters& p, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(BackwardStorage<HeadDim>));
  auto* kernel = backward_kernel<HeadDim>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.key_blocks * p.key_heads * p.batch), kThreads, kBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace foxscope::kernels::cuda::portable
