#include "kernels/cuda/attention/hopper/hopper_backward.cuh"

namespace foxscope::kernels::cuda {

using BackwardPlan128 = hopper::BackwardPlan<128, 64>;
static_assert(BackwardPlan128::kRows == kHopperBackwardTile128.rows &&
              BackwardPlan128::kKeys == kHopperBackwardTile128.keys);

cudaError_t hopper_backward_128(const BackwardParameters& parameters, cudaStream_t stream) {
  return hopper::launch_backward<BackwardPlan128>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
