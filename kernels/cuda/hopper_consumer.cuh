// The warpgroups that compute (hopper_attention.cuh). Private to kernels/cuda.
#pragma once

#include "kernels/cuda/hopper_plan.cuh"

namespace foxscope::kernels::cuda::hopper {

constexpr float kLargestSum = 1.15e18F;  // 2^60

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The rows of one warpgroup on their way through the key blocks.
template <class P>
struct Consumer {
  const AttentionParameters& p;
  typename P::Storage& storage;
  Ring<P::kSlots> ring;
  Ring<2> queries;

  using Logits = decltype(partition_fragment_C(typename P::MmaQK{}, Shape<_64, Int<P::kKeys>>{}));
  using Output = decltype(partition_fragment_C(typename P::MmaPV{}, Shape<_64, Int<P::kHeadDim>>{}));

  Work work;
  int warpgroup, lane;
  int first_row;  // of the warpgroup
  int row;        // the first of the thread's two, row + 8 the other
  const double* gate;
  double reference_gate;
  float maximum[2];  // of the first tile, or running; base-2, relative to reference_gate
  float sum[2];

  __device__ Consumer(const AttentionParameters& parameters, typename P::Storage& shared)
      : p(parameters),
        storage(shared),
        warpgroup(static_cast<int>(threadIdx.x) / 128 % P::kWarpgroups),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void start() {
    work = storage.work[queries.slot];
    first_row = work.row_block * P::kRows + warpgroup * 64;
    row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    gate = p.gate == nullptr ? nullptr : p.gate + (std::int64_t{work.batch} * p.heads + work.head) * p.length;
    reference_gate = gate == nullptr || work.item < 0 ? 0 : gate[min(first_row, p.length - 1)];
  }

  template <class Barrier>
  __device__ void release(Barrier& barrier) {
    __syncwarp();
    if (lane == 0) barrier.arrive();
  }

  /// Base-2 gate between reference_gate and the last key of a tile.
  __device__ float tile_term(int tile) const {
    if (gate == nullptr) return 0;
    return static_cast<float>((reference_gate - gate[min(tile * P::kKeys + P::kKeys, p.length) - 1]) *
                              1.4426950408889634);
  }

  __device__ void start_logits(Logits& logits, int slot) {
    typename P::MmaQK mma;
    auto thread_mma = mma.get_thread_slice(threadIdx.x % 128);
    auto q = make_tensor(make_smem_ptr(storage.query), typename P::LayoutQ{});
    auto k = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutK{});
    auto tq = thread_mma.make_fragment_A(thread_mma.partition_A(q));
    auto tk = thread_mma.make_fragment_B(thread_mma.partition_B(k));
    // Columns 0, 1, 2 of Q's slice are 1, the others 0.
    auto ones = make_tensor<Element>(Layout<Shape<Shape<_2, _2, _2>, _1, _1>>{});
    auto pairs = recast<std::uint32_t>(ones);
    pairs(0) = pairs(1) = lane % 4 == 0 ? 0x3f803f80U : lane % 4 == 1 ? 0x3f80U : 0U;
    pairs(2) = pairs(3) = 0;
    warpgroup_fence_operand(ones);
    warpgroup_fence_operand(logits);
    warpgroup_arrive();
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    CUTE_UNROLL
    for (int x = 0; x < size<2>(tq); ++x) {
      gemm(mma, tq(_, _, x, queries.slot * P::kWarpgroups + warpgroup), tk(_, _, x, slot), logits);
      mma.accumulate_ = GMMA::ScaleOut::One;
    }
    // The second half of K's slice is multiplied with zeros only, so its address may be that of the first (leading
    // offset 0).
    GmmaDescriptor descriptor;
    descriptor.desc_ = 0;
    descriptor.bitfield.start_address_ = cast_smem_ptr_to_uint(storage.bias) >> 4;
    descriptor.bitfield.leading_byte_offset_ = 0;
    descriptor.bitfield.stride_byte_offset_ = 8;
    descriptor.bitfield.layout_type_ = 0;
    auto bias = make_tensor(GMMA::DescriptorIterator{descriptor},
                            Layout<Shape<_1, _1, _1, Int<P::kSlots>>, Stride<_0, _0, _0, Int<P::kKeys>>>{});
    typename P::MmaGate gate_mma;
    gate_mma.accumulate_ = GMMA::ScaleOut::One;
    gemm(gate_mma, ones(_, _, _0{}), bias(_, _, _0{}, slot), logits);
    warpgroup_commit_batch();
  }

  __device__ void mask(Logits& logits, int tile) {
    const int first_key = tile * P::kKeys;
    const bool diagonal = first_key + P::kKeys - 1 > first_row;
    const bool low = p.window_size > 0 && first_key <= first_row + 63 - p.window_size;
    if (!diagonal && !low) return;
    const int column = lane % 4 * 2;
    CUTE_UNROLL
    for (int x = 0; x < size(logits); ++x) {
      const int distance = row + (x >> 1 & 1) * 8 - (first_key + (x >> 2) * 8 + column + (x & 1));
      if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) logits(x) = -INFINITY;
    }
  }

  __device__ static float over_quad(float x, bool add) {
    CUTE_UNROLL
    for (int step = 1; step < 4; step *= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, x, step);
      x = add ? x + other : fmaxf(x, other);
    }
    return x;
  }

  __device__ void largest(const Logits& logits, float (&result)[2]) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      float x = -INFINITY;
      CUTE_UNROLL
      for (int i = 0; i < size(logits) / 4; ++i) {
        x = fmaxf(x, fmaxf(logits(4 * i + 2 * r), logits(4 * i + 2 * r + 1)));
      }
      result[r] = over_quad(x, false);
    }
  }

  /// Turns logits into weights and starts their product with the values, 16 keys at a time.
  __device__ void weigh(Logits& logits, Output& output, const float (&shift)[2], int slot) {
    typename P::MmaPV mma;
    auto thread_mma = mma.get_thread_slice(threadIdx.x % 128);
    auto v = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutV{});
    auto tv = thread_mma.make_fragment_B(thread_mma.partition_B(v));
    auto weights = make_tensor<Element>(Layout<Shape<Shape<_2, _2, _2>, _1, Int<P::kKeys / 16>>>{});
    auto pairs = recast<std::uint32_t>(weights);
    mma.accumulate_ = GMMA::ScaleOut::One;
    warpgroup_fence_operand(output);
    CUTE_UNROLL
    for (int x = 0; x < P::kKeys / 16; ++x) {
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int at = 8 * x + 2 * i;
        const float a = exp2_fast(fmaf(logits(at), p.scale_log2, shift[i & 1]));
        const float b = exp2_fast(fmaf(logits(at + 1), p.scale_log2, shift[i & 1]));
        sum[i & 1] += a + b;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs(4 * x + i)) : "f"(b), "f"(a));
      }
      warpgroup_arrive();
      gemm(mma, weights(_, _, x), tv(_, _, x, slot), output);
    }
    warpgroup_commit_batch();
  }

  __device__ void compute_logits(Logits& logits) {
    storage.full[ring.slot].wait(ring.phase);
    start_logits(logits, ring.slot);
    warpgroup_wait<0>();
    warpgroup_fence_operand(logits);
  }

  /// Tiles that all lie after the warpgroup's last row.
  __device__ int skip_future() {
    const int own_last = min(first_row + 63, p.length - 1) / P::kKeys;
    int tile = work.last_tile;
    for (; tile > own_last && tile > work.first_tile; --tile) {
      CUTE_UNROLL
      for (int x = 0; x < 2; ++x) {
        storage.full[ring.slot].wait(ring.phase);
        release(storage.empty[ring.slot]);
        ring.advance();
      }
    }
    return tile;
  }

  /// The block of rows without a running maximum. False where a sum is too large or not a number.
  __device__ bool attend(Output& output) {
    Logits logits;
    clear(output);
    sum[0] = sum[1] = 0;
    int tile = skip_future();
    const float first_term = tile_term(tile);
    compute_logits(logits);
    release(storage.empty[ring.slot]);
    ring.advance();
    mask(logits, tile);
    float top[2];
    largest(logits, top);
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (top[r] == -INFINITY) top[r] = 0;
      maximum[r] = top[r] * p.scale_log2 + first_term;
    }
    CUTE_UNROLL
    for (int x = 0; x < size(logits); ++x) logits(x) -= top[x >> 1 & 1];
    float shift[2] = {0, 0};
    CUTE_NO_UNROLL
    for (; tile > work.first_tile; --tile) {
      storage.full[ring.slot].wait(ring.phase);
      weigh(logits, output, shift, ring.slot);
      const int values = ring.slot;
      ring.advance();
      // Not earlier: with this load above or the conversion below, the loop takes an eighth longer.
      const float term = tile_term(tile - 1);
      compute_logits(logits);
      warpgroup_fence_operand(output);
      __syncwarp();
      if (lane == 0) {
        storage.empty[values].arrive();
        storage.empty[ring.slot].arrive();
      }
      ring.advance();
      mask(logits, tile - 1);
      shift[0] = term - maximum[0];
      shift[1] = term - maximum[1];
    }
    storage.query_empty[queries.slot].arrive();  // every thread, since each has read the slot's work
    storage.full[ring.slot].wait(ring.phase);
    weigh(logits, output, shift, ring.slot);
    warpgroup_wait<0>();
    warpgroup_fence_operand(output);
    release(storage.empty[ring.slot]);
    ring.advance();
    sum[0] = over_quad(sum[0], true);
    sum[1] = over_quad(sum[1], true);
    return (sum[0] < kLargestSum || row >= p.length) && (sum[1] < kLargestSum || row + 8 >= p.length);
  }

  /// The block of rows with a running maximum.
  __device__ void attend_online(Output& output) {
    Logits logits;
    clear(output);
    sum[0] = sum[1] = 0;
    maximum[0] = maximum[1] = -INFINITY;
    CUTE_NO_UNROLL
    for (int tile = work.last_tile; tile >= work.first_tile; --tile) {
      const float term = tile_term(tile);
      compute_logits(logits);
      release(storage.empty[ring.slot]);
      ring.advance();
      mask(logits, tile);
      float top[2];
      largest(logits, top);
      float shift[2];
      float factor[2];
      CUTE_UNROLL
      for (int r = 0; r < 2; ++r) {
        const float now = fmaxf(maximum[r], top[r] * p.scale_log2 + term);
        const float reference = now == -INFINITY ? 0.0F : now;  // of rows that have seen no key yet
        factor[r] = exp2_fast(maximum[r] - reference);
        shift[r] = term - reference;
        maximum[r] = now;
        sum[r] *= factor[r];
      }
      CUTE_UNROLL
      for (int x = 0; x < size(output); ++x) output(x) *= factor[x >> 1 & 1];
      storage.full[ring.slot].wait(ring.phase);
      weigh(logits, output, shift, ring.slot);
      warpgroup_wait<0>();
      warpgroup_fence_operand(output);
      release(storage.empty[ring.slot]);
      ring.advance();
    }
    storage.query_empty[queries.slot].arrive();  // every thread, since each has read the slot's work
    sum[0] = over_quad(sum[0], true);
    sum[1] = over_quad(sum[1], true);
  }

  __device__ void store(const Output& output) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int at = row + 8 * r;
      if (at >= p.length) continue;
      const float inverse = 1.0F / sum[r];
      auto* to = static_cast<Element*>(p.output.data) + work.batch * p.output.batch + work.head * p.output.head +
                 at * p.output.row + lane % 4 * 2;
      CUTE_UNROLL
      for (int x = 0; x < P::kHeadDim / 8; ++x) {
        std::uint32_t pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
            : "=r"(pair)
            : "f"(output(4 * x + 2 * r + 1) * inverse), "f"(output(4 * x + 2 * r) * inverse));
        *reinterpret_cast<std::uint32_t*>(to + 8 * x) = pair;
      }
      if (p.log_normalizer != nullptr && lane % 4 == 0) {
        const double rest = gate == nullptr ? 0 : gate[at] - reference_gate;
        p.log_normalizer[(std::int64_t{work.batch} * p.heads + work.head) * p.length + at] =
            static_cast<float>((maximum[r] + log2f(sum[r])) * 0.6931471805599453 + rest);
      }
    }
  }
};

}  // namespace foxscope::kernels::cuda::hopper
