// The warpgroups that compute (hopper_attention.cuh). Private to kernels/cuda.
#pragma once

#include "kernels/cuda/attention/hopper/hopper_plan.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/log2e.h"

namespace foxscope::kernels::cuda::hopper {

constexpr float kLargestSum = 1.15e18F;  // 2^60

/// The rows of one warpgroup on their way through the key blocks.
template <class P>
struct Consumer {
  const AttentionParameters& p;
  typename P::Storage& storage;
  Ring<P::kSlots> ring;
  Ring<2> queries;

  /// Logits of the first N keys of a tile.
  template <int N>
  using LogitsOf = decltype(partition_fragment_C(typename P::template MmaQK<N>{}, Shape<_64, Int<N>>{}));
  using Logits = LogitsOf<P::kKeys>;
  using Output = decltype(partition_fragment_C(typename P::MmaPV{}, Shape<_64, Int<P::kHeadDim>>{}));

  Work work;
  int warpgroup, lane;
  int first_row;  // of the warpgroup
  int row;        // the first of the thread's two, row + 8 the other
  const double* gate;
  double reference_gate;
  float maximum[2];  // of the first tile, or running; base-2, relative to reference_gate
  float sum[2];
  double own_gate[2];  // of the thread's two rows

  __device__ Consumer(const AttentionParameters& parameters, typename P::Storage& shared)
      : p(parameters),
        storage(shared),
        warpgroup(uniform(static_cast<int>(threadIdx.x) / 128 % P::kWarpgroups)),
        lane(static_cast<int>(threadIdx.x) % 32) {}

  /// Tells the compiler that the warp has one value. Values that follow from it (slots, addresses, descriptors) then
  /// lives in uniform registers; without that the loop over the tiles spills.
  __device__ static int uniform(int x) { return __shfl_sync(0xffffffffU, x, 0); }

  __device__ void start() {
    const Work& given = storage.work[queries.slot];
    work.item = uniform(given.item);
    work.row_block = uniform(given.row_block);
    work.head = uniform(given.head);
    work.batch = uniform(given.batch);
    work.first_tile = uniform(given.first_tile);
    work.last_tile = uniform(given.last_tile);
    first_row = work.row_block * P::kRows + warpgroup * 64;
    row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    gate = p.gate == nullptr ? nullptr : p.gate + (std::int64_t{work.batch} * p.heads + work.head) * p.length;
    reference_gate = gate == nullptr || work.item == kEnd ? 0 : gate[min(first_row, p.length - 1)];
  }

  /// Lets the work and all its tiles go.
  __device__ void pass_over() {
    skip_tiles(work.last_tile - work.first_tile + 1);
    storage.query_empty[queries.slot].arrive();
    queries.advance();
  }

  __device__ void mark() {
    p.marked[work.item] = 1;
    p.counters->any_marked = 1;
  }

  /// Asks for the gates that store() needs, early enough for them to be there.
  __device__ void load_own_gate() {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) own_gate[r] = gate == nullptr ? 0 : gate[min(row + 8 * r, p.length - 1)];
  }

  template <class Barrier>
  __device__ void release(Barrier& barrier) {
    __syncwarp();
    if (lane == 0) barrier.arrive();
  }

  __device__ int last_key(int tile) const { return min(tile * P::kKeys + P::kKeys, p.length) - 1; }

  __device__ float to_base2(double gate_difference) const { return static_cast<float>(gate_difference * kLog2E); }

  /// Base-2 gate between reference_gate and the last key of a tile.
  __device__ float tile_term(int tile) const {
    return gate == nullptr ? 0 : to_base2(reference_gate - gate[last_key(tile)]);
  }

  template <int N>
  __device__ static auto first_keys(Logits& logits) {
    return make_tensor(logits.data(), typename LogitsOf<N>::layout_type{});
  }

  /// @tparam Gated  with the slice of the gate
  template <int N, bool Gated = true>
  __device__ void start_logits(Logits& all, int slot) {
    auto logits = first_keys<N>(all);
    typename P::template MmaQK<N> mma;
    auto thread_mma = mma.get_thread_slice(threadIdx.x % 128);
    auto q = make_tensor(make_smem_ptr(storage.query), typename P::LayoutQ{});
    auto tiles = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutK{});
    auto k = local_tile(tiles, Shape<Int<N>, Int<P::kHeadDim>, Int<P::kSlots>>{}, make_coord(_0{}, _0{}, _0{}));
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
    if constexpr (Gated) add_gate<N>(ones, logits, slot);
    warpgroup_commit_batch();
  }

  template <int N, class Ones, class Some>
  __device__ void add_gate(const Ones& ones, Some& logits, int slot) {
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
    typename P::template MmaGate<N> gate_mma;
    gate_mma.accumulate_ = GMMA::ScaleOut::One;
    gemm(gate_mma, ones(_, _, _0{}), bias(_, _, _0{}, slot), logits);
  }

  template <class Some>
  __device__ void mask(Some& logits, int tile) {
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

  template <class Some>
  __device__ void largest(const Some& logits, float (&result)[2]) {
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

  /// Turns the logits of the first N keys into weights and starts their product with the values, 16 keys at a time.
  template <int N>
  __device__ void weigh(Logits& logits, Output& output, const float (&shift)[2], int slot) {
    typename P::MmaPV mma;
    auto thread_mma = mma.get_thread_slice(threadIdx.x % 128);
    auto v = make_tensor(make_smem_ptr(storage.tiles), typename P::LayoutV{});
    auto tv = thread_mma.make_fragment_B(thread_mma.partition_B(v));
    auto weights = make_tensor<Element>(Layout<Shape<Shape<_2, _2, _2>, _1, Int<N / 16>>>{});
    auto pairs = recast<std::uint32_t>(weights);
    mma.accumulate_ = GMMA::ScaleOut::One;
    warpgroup_fence_operand(output);
    CUTE_UNROLL
    for (int x = 0; x < N / 16; ++x) {
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

  template <int N>
  __device__ void compute_logits(Logits& logits) {
    storage.full[ring.slot].wait(ring.phase);
    start_logits<N>(logits, ring.slot);
    warpgroup_wait<0>();
    warpgroup_fence_operand(logits);
  }

  /// The logits of the rows' own tile once more, relative to each row's own gate, which it loads (kMostSliceFall).
  template <int N>
  __device__ void far_logits(Logits& all, int tile) {
    start_logits<N, false>(all, ring.slot);
    load_own_gate();
    warpgroup_wait<0>();
    warpgroup_fence_operand(all);
    auto logits = first_keys<N>(all);
    const int first_key = tile * P::kKeys + lane % 4 * 2;
    CUTE_UNROLL
    for (int x = 0; x < size(logits); ++x) {
      const double of_key = gate[min(first_key + (x >> 2) * 8 + (x & 1), p.length - 1)];
      logits(x) += static_cast<float>((own_gate[x >> 1 & 1] - of_key) * p.gate_to_logit);
      if (x % 4 == 3) asm volatile("" ::: "memory");  // not all loads at once: there is no room for them
    }
  }

  /// Base-2 gate between reference_gate and one of the thread's rows, after far_logits.
  __device__ double lead(int r) const { return (reference_gate - own_gate[r]) * kLog2E; }

  /// Lets the keys and values of tiles go.
  __device__ void skip_tiles(int count) {
    CUTE_NO_UNROLL
    for (int x = 0; x < 2 * count; ++x) {
      storage.full[ring.slot].wait(ring.phase);
      release(storage.empty[ring.slot]);
      ring.advance();
    }
  }

  /// Lets the tiles go that all lie after the warpgroup's last row.
  __device__ int skip_future() {
    const int own_last = max(min(first_row + 63, p.length - 1) / P::kKeys, work.first_tile);
    skip_tiles(work.last_tile - own_last);
    return own_last;
  }

  /// Logits of the tile that is visited first, less the largest. Not a number where the gate falls too far in it.
  template <int N>
  __device__ void first_logits(Logits& all, int tile) {
    double last = gate == nullptr ? 0 : gate[last_key(tile)];
    compute_logits<N>(all);
    release(storage.empty[ring.slot]);
    ring.advance();
    asm volatile("" : "+d"(last));  // the load goes on beside the product
    const float term = to_base2(reference_gate - last);
    auto logits = first_keys<N>(all);
    mask(logits, tile);
    float top[2];
    largest(logits, top);
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (top[r] == -INFINITY) top[r] = 0;
      if (!(term <= kMostSliceFall)) top[r] = NAN;
      maximum[r] = top[r] * p.scale_log2 + term;
    }
    CUTE_UNROLL
    for (int x = 0; x < size(logits); ++x) logits(x) -= top[x >> 1 & 1];
  }

  /// Weighs the values of a tile's first N keys and makes the logits of the tile before it.
  template <int N>
  __device__ void next_logits(Logits& logits, Output& output, float (&shift)[2], int tile) {
    storage.full[ring.slot].wait(ring.phase);
    weigh<N>(logits, output, shift, ring.slot);
    const int values = ring.slot;
    ring.advance();
    const float term = tile_term(tile - 1);
    compute_logits<P::kKeys>(logits);
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

  /// The block of rows without a running maximum. False where a sum is too large or not a number, which it also is
  /// where the gate falls too far (kMostSliceFall).
  __device__ bool attend(Output& output) {
    Logits logits;
    clear(output);
    sum[0] = sum[1] = 0;
    int tile = skip_future();
    float shift[2] = {0, 0};
    // Where the rows' own keys are the first half of the tile, they see nothing of the second.
    constexpr int kHalf = P::kKeys / 2;
    const bool half = first_row + 63 < tile * P::kKeys + kHalf && tile > work.first_tile;
    if (half) {
      first_logits<kHalf>(logits, tile);
      next_logits<kHalf>(logits, output, shift, tile--);
    } else {
      first_logits<P::kKeys>(logits, tile);
    }
    CUTE_NO_UNROLL
    for (; tile > work.first_tile; --tile) next_logits<P::kKeys>(logits, output, shift, tile);
    storage.query_empty[queries.slot].arrive();  // every thread, since each has read the slot's work
    load_own_gate();
    storage.full[ring.slot].wait(ring.phase);
    weigh<P::kKeys>(logits, output, shift, ring.slot);
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
      compute_logits<P::kKeys>(logits);
      const bool far = !(term <= kMostSliceFall) && tile * P::kKeys <= first_row;
      if (far) far_logits<P::kKeys>(logits, tile);
      release(storage.empty[ring.slot]);
      ring.advance();
      mask(logits, tile);
      float top[2];
      largest(logits, top);
      float shift[2];
      float factor[2];
      CUTE_UNROLL
      for (int r = 0; r < 2; ++r) {
        const double gates = far ? lead(r) : static_cast<double>(term);
        const float now = fmaxf(maximum[r], static_cast<float>(static_cast<double>(top[r] * p.scale_log2) + gates));
        const float reference = now == -INFINITY ? 0.0F : now;  // of rows that have seen no key yet
        factor[r] = exp2_fast(maximum[r] - reference);
        shift[r] = static_cast<float>(gates - static_cast<double>(reference));
        maximum[r] = now;
        sum[r] *= factor[r];
      }
      CUTE_UNROLL
      for (int x = 0; x < size(output); ++x) output(x) *= factor[x >> 1 & 1];
      storage.full[ring.slot].wait(ring.phase);
      weigh<P::kKeys>(logits, output, shift, ring.slot);
      warpgroup_wait<0>();
      warpgroup_fence_operand(output);
      release(storage.empty[ring.slot]);
      ring.advance();
    }
    storage.query_empty[queries.slot].arrive();  // every thread, since each has read the slot's work
    load_own_gate();
    sum[0] = over_quad(sum[0], true);
    sum[1] = over_quad(sum[1], true);
  }

  /// Transposes four values of each of a row's four lanes: lane l gets the l-th of each.
  __device__ void transpose(std::uint32_t (&x)[4]) {
    CUTE_UNROLL
    for (int step = 1; step < 4; step *= 2) {
      const bool upper = (lane & step) != 0;
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i) {
        if ((i & step) != 0) continue;
        const std::uint32_t given = upper ? x[i] : x[i | step];
        const std::uint32_t got = __shfl_xor_sync(0xffffffffU, given, step);
        (upper ? x[i] : x[i | step]) = got;
      }
    }
  }

  __device__ void store(const Output& output) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int at = row + 8 * r;
      const float inverse = 1.0F / sum[r];
      auto* to = static_cast<Element*>(p.output.data) + work.batch * p.output.batch + work.head * p.output.head +
                 at * p.output.row + lane % 4 * 8;
      CUTE_UNROLL
      for (int x = 0; x < P::kHeadDim / 8; x += 4) {
        std::uint32_t pairs[4];
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) {
          asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
              : "=r"(pairs[i])
              : "f"(output(4 * (x + i) + 2 * r + 1) * inverse), "f"(output(4 * (x + i) + 2 * r) * inverse));
        }
        transpose(pairs);
        if (at < p.length) {
          *reinterpret_cast<uint4*>(to + 8 * x) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
      }
      if (at >= p.length) continue;
      if (p.log_normalizer != nullptr && lane % 4 == 0) {
        const double rest = own_gate[r] - reference_gate;
        p.log_normalizer[(std::int64_t{work.batch} * p.heads + work.head) * p.length + at] = static_cast<float>(
            (static_cast<double>(maximum[r]) + static_cast<double>(log2f(sum[r]))) * 0.6931471805599453 + rest);
      }
    }
  }
};

}  // namespace foxscope::kernels::cuda::hopper
