// The backward of forgetting attention on Hopper: tiles by the bulk copy engine (TMA), products by wgmma. Private to
// kernels/cuda.
//
// A thread block owns 128 keys. A warp copies blocks of rows of Q and dO, two ahead; two warpgroups hold dK and dV of
// 64 keys each. They compute S and dP transposed, so that P and dS leave the products in the registers from which those
// for dV and dK take them; only dS also goes through shared memory, for dQ, which other warps have the copy engine add
// to memory in float32, and wait where it has to be in turn. A gate costs one addition: of 128 keys each thread has
// two, whose gates stay in its registers. The sums of rows and columns of dS are eight more columns of the products for
// dQ and dK, whose right sides there are ones.
#pragma once

#include <cutlass/arch/reg_reconfig.h>

#include "kernels/cuda/attention/hopper/hopper_backward_consumer.cuh"

namespace foxscope::kernels::cuda::hopper {

/// Issues the copies, in the order of their use.
template <class P>
struct BackwardLoader {
  const BackwardParameters& p;
  const typename P::Copies& copies;
  typename P::Storage& storage;
  KeyWork work;

  __device__ void run() {
    storage.keys_full.arrive_and_expect_tx(2 * P::kKeysBytes);
    copy_tile<P::kKeys>(copies.key, p.key_heads, work.key_head, work.block, storage.key, storage.keys_full);
    copy_tile<P::kKeys>(copies.value, p.key_heads, work.key_head, work.block, storage.value, storage.keys_full);
    Ring<P::kSlots> ring;
    CUTE_NO_UNROLL
    for (RowBlocks at(p, work, P::kTile); at.valid(); at.advance(p, work, P::kTile)) {
      const int head = at.flat_head - work.batch * p.heads;
      storage.empty[ring.slot].wait(ring.phase ^ 1);
      FullBarrier& query_full = storage.query_full[ring.slot];
      query_full.arrive_and_expect_tx(P::kRowsBytes + P::kStatisticsBytes);
      copy_tile<P::kRows>(copies.query, p.heads, head, at.row_block, storage.query[ring.slot], query_full);
      SM90_BULK_COPY_G2S::copy(p.statistics + std::int64_t{at.flat_head} * p.row_parts + at.row_block * P::kParts,
                               reinterpret_cast<std::uint64_t*>(&query_full), storage.rows[ring.slot],
                               P::kStatisticsBytes);
      FullBarrier& gradient_full = storage.gradient_full[ring.slot];
      gradient_full.arrive_and_expect_tx(P::kRowsBytes);
      copy_tile<P::kRows>(copies.output_gradient, p.heads, head, at.row_block, storage.output_gradient[ring.slot],
                          gradient_full);
      ring.advance();
    }
  }

 private:
  template <int N, class Copy>
  __device__ void copy_tile(const Copy& copier, int heads, int head, int block, Element* to, FullBarrier& barrier) {
    auto tensor = copier.get_tma_tensor(make_shape(p.length, Int<P::kHeadDim>{}, heads, p.batch));
    auto blocks = local_tile(tensor(_, _, head, work.batch), Shape<Int<N>, Int<P::kHeadDim>>{}, make_coord(_, _0{}));
    auto shared = make_tensor(make_smem_ptr(to), typename P::template TileLayout<N>{});
    auto parts = tma_partition(copier, _0{}, Layout<_1>{}, group_modes<0, 2>(shared), group_modes<0, 2>(blocks));
    copy(copier.with(*reinterpret_cast<std::uint64_t*>(&barrier)), get<0>(parts)(_, block), get<1>(parts));
  }
};

/// Adds dQ to memory, of every other block of rows: with turns that takes longer than computing one.
template <class P>
struct BackwardWriter {
  const BackwardParameters& p;
  typename P::Storage& storage;
  KeyWork work;
  int own;  // 0 or 1

  __device__ void run() {
    Ring<2> steps;
    CUTE_NO_UNROLL
    for (RowBlocks at(p, work, P::kTile); at.valid(); at.advance(p, work, P::kTile)) {
      if (steps.slot == own) add(at, steps.phase);
      steps.advance();
    }
  }

 private:
  __device__ void add(const RowBlocks& at, std::uint32_t phase) {
    const std::int64_t piece =
        std::int64_t{at.flat_head} * p.row_parts * (kStatisticsRows / kSumRows) + at.row_block * (P::kRows / kSumRows);
    int* turn = p.turns == nullptr ? nullptr : p.turns + piece * kTurns;
    if (turn != nullptr) {
      await_turn(turn, work.block);
      asm volatile("fence.proxy.async;" ::: "memory");
    }
    storage.sums_full[own].wait(phase);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     p.sums + piece * sum_piece(P::kHeadDim)),
                 "r"(cast_smem_ptr_to_uint(storage.sums)), "r"(P::kSums * 4)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    storage.sums_empty.arrive();
    if (turn != nullptr) {
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      __threadfence();
      pass_turn(turn, work.block);
    }
  }
};

template <class P>
__global__ void __launch_bounds__(P::kThreads, 1)
    backward_kernel(const __grid_constant__ BackwardParameters p, const __grid_constant__ typename P::Copies copies) {
  // Aligned by its declaration: an address that was computed would be read through generic loads.
  extern __shared__ __align__(1024) char memory[];
  auto& storage = *reinterpret_cast<typename P::Storage*>(memory);
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    constexpr int kConsumerWarps = 4 * P::kWarpgroups;
    storage.keys_full.init(1);
    storage.sums_empty.init(1);
    for (int slot = 0; slot < P::kSlots; ++slot) {
      storage.query_full[slot].init(1);
      storage.gradient_full[slot].init(1);
      storage.empty[slot].init(kConsumerWarps);
      storage.logit_gradient_full[slot].init(kConsumerWarps);
      storage.sums_full[slot].init(kConsumerWarps);
    }
    cutlass::arch::fence_barrier_init();
    // Turns are awaited from thread blocks with smaller items, which must have begun.
    storage.item = p.turns == nullptr ? static_cast<int>(blockIdx.x) : atomicAdd(p.ticket, 1);
  }
  for (int i = static_cast<int>(threadIdx.x); i < P::kOnes / 2; i += P::kThreads) {
    reinterpret_cast<std::uint32_t*>(storage.ones)[i] = 0x3f803f80U;
  }
  cutlass::arch::fence_view_async_shared();
  __syncthreads();
  const KeyWork work = find_key_work(p, storage.item);

  if (warp >= 4 * P::kWarpgroups) {
    cutlass::arch::warpgroup_reg_dealloc<P::kLoaderRegisters>();
    if (warp == 4 * P::kWarpgroups && threadIdx.x % 32 == 0) {
      prefetch_tma_descriptor(copies.query.get_tma_descriptor());
      prefetch_tma_descriptor(copies.output_gradient.get_tma_descriptor());
      prefetch_tma_descriptor(copies.key.get_tma_descriptor());
      prefetch_tma_descriptor(copies.value.get_tma_descriptor());
      BackwardLoader<P>{p, copies, storage, work}.run();
    } else if (warp <= 4 * P::kWarpgroups + 2 && threadIdx.x % 32 == 0) {
      BackwardWriter<P>{p, storage, work, warp - 4 * P::kWarpgroups - 1}.run();
    }
    return;
  }
  cutlass::arch::warpgroup_reg_alloc<P::kConsumerRegisters>();
  BackwardConsumer<P> consumer(p, storage, work);
  consumer.run();
  consumer.store_gradients();
}

template <class P>
cudaError_t launch_backward(const BackwardParameters& p, cudaStream_t stream) {
  const typename P::Copies copies{P::template copy_rows<P::kRows>(p.query, p.length, p.heads, p.batch),
                                  P::template copy_rows<P::kRows>(p.output_gradient, p.length, p.heads, p.batch),
                                  P::template copy_rows<P::kKeys>(p.key, p.length, p.key_heads, p.batch),
                                  P::template copy_rows<P::kKeys>(p.value, p.length, p.key_heads, p.batch)};
  constexpr int kBytes = static_cast<int>(sizeof(typename P::Storage));
  static_assert(kBytes <= 227 * 1024);
  auto* kernel = backward_kernel<P>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
  kernel<<<static_cast<unsigned>(p.key_blocks * p.key_heads * p.batch), P::kThreads, kBytes, stream>>>(p, copies);
  return cudaGetLastError();
}

}  // namespace foxscope::kernels::cuda::hopper
