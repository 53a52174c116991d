#include "kernels/cuda/maps/map_pooling.cuh"

namespace foxscope::kernels::cuda::maps {

Status pool_difference(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream) {
  return launch_pooling<AnyDot, 2>(p, tiles, shared_bytes, stream);
}

}  // namespace foxscope::kernels::cuda::maps
