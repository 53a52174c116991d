#include "kernels/cuda/maps/mixing_pooling.cuh"

namespace foxscope::kernels::cuda::maps {

Status mix_64(const MixingParameters& m, MixingKind kind, int parts, int tiles, int shared_bytes, cudaStream_t stream) {
  if (kind == MixingKind::channel_decay) return launch_mixing<64, 2, true>(m, tiles, shared_bytes, stream);
  if (parts == 2) return launch_mixing<64, 2, false>(m, tiles, shared_bytes, stream);
  return launch_mixing<64, 1, false>(m, tiles, shared_bytes, stream);
}

}  // namespace foxscope::kernels::cuda::maps
