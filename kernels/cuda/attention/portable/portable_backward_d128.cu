#include "kernels/cuda/attention/portable/portable_backward.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_backward_128(const BackwardParameters& parameters, cudaStream_t stream) {
  return portable::launch_backward<portable::BackwardPlan<128, 32, 2, 32, 2, 1>,
                                   portable::BackwardPlan<128, 16, 2, 64, 1, 1>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
