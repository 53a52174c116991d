#include "kernels/cuda/attention/portable/portable_backward.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_backward_96(const BackwardParameters& parameters, cudaStream_t stream) {
  return portable::launch_backward<portable::BackwardPlan<96, 16, 4, 64, 1, 1>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
