#include "kernels/cuda/attention/portable/portable_backward.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_backward_96(const BackwardParameters& parameters, cudaStream_t stream) {
  return portable::launch_backward<96>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
