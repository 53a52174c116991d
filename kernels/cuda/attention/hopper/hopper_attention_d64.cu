#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace foxscope::kernels::cuda {

using Plan64 = hopper::Plan<64, 1, 3, 128, 4>;
static_assert(Plan64::kRows == kHopperTile64.rows && Plan64::kKeys == kHopperTile64.keys);

cudaError_t hopper_attention_64(const AttentionParameters& parameters, cudaStream_t stream) {
  return hopper::launch<Plan64>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
