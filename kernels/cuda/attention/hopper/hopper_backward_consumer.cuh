// The warpgroups that compute the backward (hopper_backward.cuh). Private to kernels/cuda.
#pragma once

#include "kernels/cuda/attention/hopper/hopper_backward_plan.cuh"
#include "kernels/cuda/exp2.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda::hopper {

__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 64 keys on their way through the blocks of rows.
template <class P>
struct BackwardConsumer {
  static constexpr int kRows = P::kRows;
  static constexpr int kHalves = P::kHalves;
  using RowsProduct = std::conditional_t<kRows == 128, products::MMA_64x128x16_F32BF16BF16_SS<Major::K, Major::K>,
                                         products::MMA_64x64x16_F32BF16BF16_SS<Major::K, Major::K>>;
  using ValueProduct = std::conditional_t<kHalves == 1, products::MMA_64x64x16_F32BF16BF16_RS<Major::K, Major::MN>,
                                          products::MMA_64x128x16_F32BF16BF16_RS<Major::K, Major::MN>>;
  // Eight columns more are ones, so that the sums of dS come along.
  using KeyProduct = products::MMA_64x64x16_F32BF16BF16_RS<Major::K, Major::MN>;
  using SummingKeyProduct = products::MMA_64x72x16_F32BF16BF16_RS<Major::K, Major::MN>;
  using QueryProduct = products::MMA_64x72x16_F32BF16BF16_SS<Major::MN, Major::MN>;
  using OfRows = float[kRows / 2];              // 64 keys by the rows
  using Packed = std::uint32_t[kRows / 16][4];  // the same in bfloat16, as the left side of products over rows
  using Sums = float[36];

  const BackwardParameters& p;
  typename P::Storage& storage;
  KeyWork work;
  int warpgroup, warp, lane;     // warp of the warpgroup
  std::uint32_t shared_address;  // of the storage
  int first_key;                 // of the thread block
  int own_key;                   // of the thread's two the first, from there
  float value_gradient[32 * kHalves];
  float key_gradient[kHalves > 1 ? 32 : 1];  // of the columns before the last 64
  Sums summing_key_gradient;                 // of the last 64, then the sums of columns of dS

  __device__ BackwardConsumer(const BackwardParameters& parameters, typename P::Storage& shared, const KeyWork& given)
      : p(parameters), storage(shared), work{uniform(given.block), uniform(given.key_head), uniform(given.batch)} {
    shared_address = static_cast<std::uint32_t>(uniform(static_cast<int>(cast_smem_ptr_to_uint(&shared))));
    const int all_warps = uniform(static_cast<int>(threadIdx.x) / 32);
    warpgroup = all_warps / 4;
    warp = all_warps % 4;
    lane = static_cast<int>(threadIdx.x) % 32;
    first_key = work.block * P::kKeys;
    own_key = 64 * warpgroup + 16 * warp + lane / 4;
    if (lane % 4 == 0) storage.column_sums[own_key] = storage.column_sums[own_key + 8] = 0;
#pragma unroll
    for (float& x : value_gradient) x = 0;
#pragma unroll
    for (float& x : key_gradient) x = 0;
#pragma unroll
    for (float& x : summing_key_gradient) x = 0;
  }

  /// Tells the compiler that the warp has one value. Without that it takes branches for divergent and waits for each
  /// product at once.
  __device__ static int uniform(int x) { return __shfl_sync(0xffffffffU, x, 0); }
  __device__ static void make_uniform(RowBlocks& at) {
    at.flat_head = uniform(at.flat_head);
    at.row_block = uniform(at.row_block);
    at.end = uniform(at.end);
    at.heads_left = uniform(at.heads_left);
  }

  /// Key of the thread: row r of the two that it has of the products.
  [[nodiscard]] __device__ int key(int r) const { return first_key + own_key + 8 * r; }

  /// An address in shared memory.
  [[nodiscard]] __device__ std::uint32_t address(const void* of_storage) const {
    return shared_address +
           static_cast<std::uint32_t>(static_cast<const char*>(of_storage) - reinterpret_cast<const char*>(&storage));
  }

  /// Puts the gates of the keys where they take no registers. The threads that read one write it too.
  __device__ void start_head(int flat_head) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const double* gate = p.gate == nullptr ? nullptr : p.gate + std::int64_t{flat_head} * p.length;
      if (lane % 4 == 0) {
        storage.gates[own_key + 8 * r] = gate == nullptr ? 0 : gate[min(key(r), p.length - 1)];
      }
    }
    __syncwarp();
  }

  /// Starts result = (64 of the keys' rows) (rows)^T. The old result is not read, so that it need not live.
  __device__ void start_rows_product(const Element* keys, const Element* rows, OfRows& result) {
    const std::uint32_t own_keys = static_cast<std::uint32_t>(warpgroup) * 64 * 128;
    warpgroup_arrive();
#pragma unroll
    for (int x = 0; x < P::kHeadDim / 16; ++x) {
      const int column = x % 4 * 16;
      const std::uint64_t a = operand(address(keys + x / 4 * P::kKeys * 64 + column) + own_keys, 0);
      const std::uint64_t b = operand(address(rows + x / 4 * kRows * 64 + column), 0);
      multiply_shared<RowsProduct>(a, b, result, x == 0 ? ScaleOut::Zero : ScaleOut::One);
    }
    warpgroup_commit_batch();
  }

  /// Logits become weights.
  /// @tparam Masked  some of the pairs are not there
  template <bool Masked>
  __device__ void weigh(OfRows& logits, const RowStatistics* parts, int row_block) {
#pragma unroll
    for (int part = 0; part < P::kParts; ++part) {
      const RowStatistics& rows = parts[part];
      const double first_gate = rows.first_gate;
      const SplitGate gates[2] = {SplitGate(first_gate - storage.gates[own_key]),
                                  SplitGate(first_gate - storage.gates[own_key + 8])};
#pragma unroll
      for (int x = 0; x < 8; ++x) {
        const int at = 8 * x + lane % 4 * 2;
        const float2 term = *reinterpret_cast<const float2*>(rows.term + at);
        float2 rest = {0, 0};
        if constexpr (Masked) rest = *reinterpret_cast<const float2*>(rows.rest + at);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& logit = logits[(part * 8 + x) * 4 + i];
          float shift = (i % 2 == 0 ? term.x : term.y) + gates[i / 2].high;
          if constexpr (Masked) shift += (i % 2 == 0 ? rest.x : rest.y) + gates[i / 2].low;
          float exponent = fmaf(logit, p.scale_log2, shift);
          if constexpr (Masked) {
            const int distance = row_block * kRows + part * 64 + at + i % 2 - key(i / 2);
            if (distance < 0 || (p.window_size > 0 && distance >= p.window_size)) exponent = -INFINITY;
          }
          logit = exp2_fast(exponent);
        }
      }
    }
  }

  /// dS = P (dP - delta), in place of dP.
  __device__ void backward(const OfRows& weights, OfRows& gradients, const RowStatistics* parts) const {
#pragma unroll
    for (int x = 0; x < kRows / 8; ++x) {
      const float2 delta = *reinterpret_cast<const float2*>(parts[x / 8].delta + x % 8 * 8 + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        gradients[4 * x + i] = weights[4 * x + i] * (gradients[4 * x + i] - (i % 2 == 0 ? delta.x : delta.y));
      }
    }
  }

  __device__ static void pack(const OfRows& x, Packed& packed) {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) packed[n][i] = pack_pair(x[8 * n + 2 * i], x[8 * n + 2 * i + 1]);
    }
  }

  /// dS to shared memory, where the other warpgroup reads it too.
  __device__ void share(const Packed& packed, int slot) {
    const int row = lane % 8;  // of eight keys
    const int eight = 8 * warpgroup + 2 * warp + lane / 8 % 2;
    // 16 bytes after 16 bytes of 128, swizzled by the row
    const std::uint32_t to = address(storage.logit_gradient[slot]) +
                             static_cast<std::uint32_t>(eight * 1024 + row * 128 + (lane / 16 ^ row) * 16);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const std::uint32_t at =
          (to ^ static_cast<std::uint32_t>(n % 4 * 32)) + static_cast<std::uint32_t>(n / 4 * P::kKeys * 128);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(packed[n][0]),
                   "r"(packed[n][1]), "r"(packed[n][2]), "r"(packed[n][3])
                   : "memory");
    }
    cutlass::arch::fence_view_async_shared();
    __syncwarp();
    if (lane == 0) storage.logit_gradient_full[slot].arrive();
  }

  /// Starts dV += P^T dO.
  __device__ void start_value_product(const Packed& weights, int slot) {
    hold(value_gradient);
    warpgroup_arrive();
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const std::uint64_t b = operand(address(storage.output_gradient[slot] + n * 16 * 64), kRows * 128);
      multiply_registers<ValueProduct>(weights[n], b, value_gradient);
    }
    warpgroup_commit_batch();
  }

  /// An operand whose next 64 columns are the ones, wherever it is.
  [[nodiscard]] __device__ std::uint64_t summing_operand(std::uint32_t at) const {
    return operand(at, address(storage.ones) - at);
  }

  /// Starts dK += dS^T Q.
  __device__ void start_key_product(const Packed& gradients, int slot) {
    if constexpr (kHalves > 1) hold(key_gradient);
    hold(summing_key_gradient);
    warpgroup_arrive();
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      const Element* rows = storage.query[slot] + n * 16 * 64;
      if constexpr (kHalves > 1) {
        multiply_registers<KeyProduct>(gradients[n], operand(address(rows), 0), key_gradient);
        rows += kRows * 64;
      }
      multiply_registers<SummingKeyProduct>(gradients[n], summing_operand(address(rows)), summing_key_gradient);
    }
    warpgroup_commit_batch();
  }

  /// Starts 64 rows and 64 columns of dQ = dS K.
  __device__ void start_query_product(Sums& result, int slot) {
    // The warpgroup's rows where there are 128, its columns where there are 64.
    const std::uint32_t half = static_cast<std::uint32_t>(warpgroup) * P::kKeys * 128;
    const std::uint32_t rows = address(storage.logit_gradient[slot]) + (P::kParts == 2 ? half : 0);
    const std::uint32_t columns = address(storage.key) + (kHalves == 2 ? half : 0);
    warpgroup_arrive();
#pragma unroll
    for (int n = 0; n < P::kKeys / 16; ++n) {
      multiply_shared<QueryProduct>(operand(rows + n * 2048, 0), summing_operand(columns + n * 2048), result,
                                    n == 0 ? ScaleOut::Zero : ScaleOut::One);
    }
    warpgroup_commit_batch();
  }

  /// Gives 16 rows and 64 columns of dQ, and where they are the last columns sums of dS, to the writer.
  /// @param slot  of the ring: 0 and 1 in turn
  __device__ void share_query_gradient(const Sums& gradient, int slot) {
    const int piece = P::kParts == 2 ? 4 * warpgroup + warp : warp;
    const int half = kHalves == 2 ? warpgroup : 0;
    float* sums = storage.sums + piece * sum_piece(P::kHeadDim) + half * 1024;
    storage.sums_empty.wait(static_cast<std::uint32_t>(slot) ^ 1U);
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      reinterpret_cast<float4*>(sums)[x * 32 + lane] = {gradient[4 * x], gradient[4 * x + 1], gradient[4 * x + 2],
                                                        gradient[4 * x + 3]};
    }
    if (half == kHalves - 1 && lane % 4 == 0) {
      sums[1024 + lane / 4] = gradient[32];
      sums[1024 + lane / 4 + 8] = gradient[34];
    }
    cutlass::arch::fence_view_async_shared();
    __syncwarp();
    if (lane == 0) storage.sums_full[slot].arrive();
  }

  /// Stores the head's part of the sums of columns. They go on from head to head: a store to registers of a product
  /// would have to wait for all products.
  __device__ void finish_head(int flat_head) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (lane % 4 != 0) continue;
      float& former = storage.column_sums[own_key + 8 * r];
      const float sum = summing_key_gradient[32 + 2 * r];
      if (key(r) < p.length) p.column_sums[std::int64_t{flat_head} * p.length + key(r)] = sum - former;
      former = sum;
    }
  }

  [[nodiscard]] __device__ bool needs_mask(int row_block) const {
    const int first_row = row_block * kRows;
    return first_row < first_key + P::kKeys - 1 ||
           (p.window_size > 0 && first_row + kRows - 1 - first_key >= p.window_size);
  }

  /// P and dS of a block of rows, as the left sides of the products for dV and dK.
  __device__ void make_logit_gradients(int row_block, const Ring<P::kSlots>& ring, Packed& packed_weights,
                                       Packed& packed) {
    OfRows weights;
    OfRows gradients;
    storage.query_full[ring.slot].wait(ring.phase);
    start_rows_product(storage.key, storage.query[ring.slot], weights);
    storage.gradient_full[ring.slot].wait(ring.phase);
    start_rows_product(storage.value, storage.output_gradient[ring.slot], gradients);
    warpgroup_wait<1>();
    hold(weights);
    const RowStatistics* parts = storage.rows[ring.slot];
    if (needs_mask(row_block)) {
      weigh<true>(weights, parts, row_block);
    } else {
      weigh<false>(weights, parts, row_block);
    }
    warpgroup_wait<0>();
    hold(gradients);
    backward(weights, gradients, parts);
    pack(weights, packed_weights);
    pack(gradients, packed);
  }

  /// Adds a block of rows to the gradients. At the end no product goes on: the compiler waits for each at once where
  /// one crosses the start of the loop.
  __device__ void visit(int row_block, const Ring<P::kSlots>& ring) {
    Packed weights;
    Packed gradients;
    make_logit_gradients(row_block, ring, weights, gradients);
    share(gradients, ring.slot);
    start_value_product(weights, ring.slot);
    // Both slots of dS are needed, and enough: who writes to one again has seen the other warpgroup share the next dS,
    // which that does after its product with the former.
    storage.logit_gradient_full[ring.slot].wait(ring.phase);
    Sums query_gradient;
    start_query_product(query_gradient, ring.slot);
    start_key_product(gradients, ring.slot);
    warpgroup_wait<1>();
    hold(value_gradient);
    hold(query_gradient);
    static_assert(P::kSlots == 2);
    share_query_gradient(query_gradient, ring.slot);
    warpgroup_wait<0>();
    if constexpr (kHalves > 1) hold(key_gradient);
    hold(summing_key_gradient);
    __syncwarp();
    if (lane == 0) storage.empty[ring.slot].arrive();
  }

  /// Goes through all blocks of rows.
  __device__ void run() {
    RowBlocks now(p, work, P::kTile);
    make_uniform(now);
    start_head(now.flat_head);
    Ring<P::kSlots> ring;
    storage.keys_full.wait(0);
    CUTE_NO_UNROLL
    while (true) {
      visit(now.row_block, ring);
      ring.advance();
      const bool last_of_head = now.last_of_head();
      if (last_of_head) finish_head(now.flat_head);
      now.advance(p, work, P::kTile);
      make_uniform(now);
      if (!now.valid()) break;
      if (last_of_head) start_head(now.flat_head);
    }
  }

  /// Stores 64 columns of a row of [B, H_kv, L, d].
  template <int N>
  __device__ void store(const float (&gradient)[N], int first, const MutableTensorView& view, int column,
                        float factor) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      auto* to = static_cast<Element*>(view.data) + work.batch * view.batch + work.key_head * view.head +
                 key(r) * view.row + column + lane % 4 * 8;
#pragma unroll
      for (int x = 0; x < 8; x += 4) {
        std::uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = first + 4 * (x + i) + 2 * r;
          pairs[i] = pack_pair(gradient[at] * factor, gradient[at + 1] * factor);
        }
        transpose_quad(pairs);
        if (key(r) < p.length) *reinterpret_cast<uint4*>(to + 8 * x) = {pairs[0], pairs[1], pairs[2], pairs[3]};
      }
    }
  }

  __device__ void store_gradients() const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) store(value_gradient, 32 * half, p.value_gradient, 64 * half, 1);
    if constexpr (kHalves > 1) store(key_gradient, 0, p.key_gradient, 0, p.scale);
    store(summing_key_gradient, 0, p.key_gradient, 64 * (kHalves - 1), p.scale);
  }
};

}  // namespace foxscope::kernels::cuda::hopper
