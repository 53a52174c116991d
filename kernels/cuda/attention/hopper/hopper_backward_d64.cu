#include "kernels/cuda/attention/hopper/hopper_backward.cuh"

namespace foxscope::kernels::cuda {

using BackwardPlan64 = hopper::BackwardPlan<64, 128>;
static_assert(BackwardPlan64::kRows == kHopperBackwardTile64.rows &&
              BackwardPlan64::kKeys == kHopperBackwardTile64.keys);

cudaError_t hopper_backward_64(const BackwardParameters& parameters, cudaStream_t stream) {
  return hopper::launch_backward<BackwardPlan64>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
