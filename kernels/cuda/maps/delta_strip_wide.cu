#include "kernels/cuda/maps/delta_pooling.cuh"

namespace foxscope::kernels::cuda::maps {

Status write_wide_delta(const MixingParameters& m, int depth, int shared_bytes, cudaStream_t stream) {
  return depth == 192 ? launch_wide_delta<192>(m, shared_bytes, stream)
                      : launch_wide_delta<256>(m, shared_bytes, stream);
}

}  // namespace foxscope::kernels::cuda::maps
