#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace foxscope::kernels::cuda {

using Plan128 = hopper::Plan<128, 1, 2, 128, 4>;
static_assert(Plan128::kRows == kHopperTile128.rows && Plan128::kKeys == kHopperTile128.keys);

cudaError_t hopper_attention_128(const AttentionParameters& parameters, cudaStream_t stream) {
  return hopper::launch<Plan128>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
