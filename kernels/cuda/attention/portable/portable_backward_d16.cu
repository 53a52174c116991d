#include "kernels/cuda/attention/portable/portable_backward.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_backward_16(const BackwardParameters& parameters, cudaStream_t stream) {
  return portable::launch_backward<portable::BackwardPlan<16, 32, 4, 64, 1, 2>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
