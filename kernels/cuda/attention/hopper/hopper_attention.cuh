// Forgetting attention on Hopper: tiles by the bulk copy engine (TMA), products by wgmma. Private to kernels/cuda.
//
// The gate costs one more slice of 16 in Q K^T: the slice of Q is 1 in three columns, that of K holds (c_last of the
// key block - c_j) / scale as three bfloat16 terms (gate_bias, forgetting_attention.cu). The rest of a row's gate,
// c_ref - c_last with c_ref the gate at the block's first row, is one number a pair of tiles.
//
// The softmax does not follow the running maximum. Its reference is the row's largest logit in the first key block
// that is visited, which holds the row's own key; later weights may exceed 1. Sum and output are float32 and a weight
// of 2^60 is no less exact than one of 1, so nothing is lost until a sum passes kLargestSum; then, for NaN, and where
// the gate falls too far for the slice (kMostSliceFall), the block of rows is marked, and a second launch, which
// otherwise ends at once, computes it again with a running maximum and, in the rows' own tiles, gates of float64. In a
// kernel of its own, because beside the first its registers spill.
//
// A thread block stays on its multiprocessor. It holds some teams that know nothing of each other: a warp that issues
// copies and one or more warpgroups of 64 rows each that share the key blocks. A team takes one block of rows after the
// other; the loads of the next run while the last of this one is computed.
#pragma once

#include <cutlass/arch/reg_reconfig.h>

#include "kernels/cuda/attention/hopper/hopper_consumer.cuh"
#include "kernels/cuda/attention/hopper/hopper_loader.cuh"

namespace foxscope::kernels::cuda::hopper {

/// @tparam Again  the second launch
template <class P, bool Again>
__global__ void __launch_bounds__(P::kThreads, 1)
    attend_kernel(const __grid_constant__ AttentionParameters p, const __grid_constant__ typename P::Copies copies) {
  extern __shared__ char memory[];
  auto* teams = reinterpret_cast<typename P::Storage*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  if constexpr (Again) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (p.counters->any_marked == 0) return;
  } else {
    asm volatile("griddepcontrol.launch_dependents;");
  }
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x < P::kTeams) {
    auto& storage = teams[threadIdx.x];
    for (int slot = 0; slot < 2; ++slot) {
      storage.query_full[slot].init(1);
      storage.query_empty[slot].init(128 * P::kWarpgroups);
    }
    for (int slot = 0; slot < P::kSlots; ++slot) {
      storage.full[slot].init(1);
      storage.empty[slot].init(4 * P::kWarpgroups);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();

  if (warp >= 4 * P::kAllWarpgroups) {
    cutlass::arch::warpgroup_reg_dealloc<P::kLoaderRegisters>();
    const int team = warp - 4 * P::kAllWarpgroups;
    if (team < P::kTeams && threadIdx.x % 32 == 0) {
      prefetch_tma_descriptor(copies.query.get_tma_descriptor());
      prefetch_tma_descriptor(copies.key.get_tma_descriptor());
      prefetch_tma_descriptor(copies.value.get_tma_descriptor());
      Loader<P> loader{p, copies, teams[team], {}, {}, {}};
      loader.template run<Again>(static_cast<int>(blockIdx.x) * P::kTeams + team);
    }
    return;
  }
  cutlass::arch::warpgroup_reg_alloc<P::kConsumerRegisters>();
  Consumer<P> consumer(p, teams[warp / (4 * P::kWarpgroups)]);
  CUTE_NO_UNROLL
  while (true) {
    consumer.storage.query_full[consumer.queries.slot].wait(consumer.queries.phase);
    consumer.start();
    if (consumer.work.item == kEnd) break;
    if (consumer.first_row >= p.length) {
      consumer.pass_over();
      continue;
    }
    typename Consumer<P>::Output output;
    if constexpr (Again) {
      consumer.attend_online(output);
    } else if (!consumer.attend(output)) {
      consumer.mark();
    }
    consumer.queries.advance();
    consumer.store(output);
  }
}

template <class P>
cudaError_t launch(AttentionParameters p, cudaStream_t stream) {
  // Half of the L2 cache for the keys and values of the heads that are computed at a time.
  const double head_bytes = 4.0 * p.length * P::kHeadDim / p.group + 16.0 * p.length;
  p.heads_at_a_time = std::clamp(static_cast<int>(p.cache_bytes / 2 / head_bytes), 1, p.heads * p.batch);
  const typename P::Copies copies{P::copy_query(p), P::copy_key(p), P::copy_value(p)};
  constexpr int kBytes = P::kTeams * static_cast<int>(sizeof(typename P::Storage)) + 1024;
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min((p.items + P::kTeams - 1) / P::kTeams, p.multiprocessors)));
  config.blockDim = dim3(P::kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  for (auto* kernel : {attend_kernel<P, false>, attend_kernel<P, true>}) {
    if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)) return e;
    if (const auto e = cudaLaunchKernelEx(&config, kernel, p, copies)) return e;
  }
  return cudaSuccess;
}

}  // namespace foxscope::kernels::cuda::hopper
