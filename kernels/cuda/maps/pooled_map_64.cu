#include "kernels/cuda/maps/map_pooling.cuh"

namespace foxscope::kernels::cuda::maps {

Status pool_64(const PoolParameters& p, int tiles, int shared_bytes, cudaStream_t stream) {
  const bool plain = !p.staged && p.value == MapValue::attention;
  if (plain && p.logarithm && p.reduction == MapReduction::max) {
    return launch_pooling<FixedDot<64>, 1, PoolMode::peaks>(p, tiles, shared_bytes, stream);
  }
  if (plain && p.reduction == MapReduction::mean) {
    return launch_pooling<FixedDot<64>, 1, PoolMode::sums>(p, tiles, shared_bytes, stream);
  }
  return launch_pooling<FixedDot<64>, 1>(p, tiles, shared_bytes, stream);
}

}  // namespace foxscope::kernels::cuda::maps
