#include "kernels/cuda/maps/delta_pooling.cuh"

namespace foxscope::kernels::cuda::maps {

Status mix_delta_128(const MixingParameters& m, int shared_bytes, cudaStream_t stream) {
  return launch_delta<128>(m, shared_bytes, stream);
}

}  // namespace foxscope::kernels::cuda::maps
