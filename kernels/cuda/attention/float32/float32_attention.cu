#include "kernels/cuda/attention/float32/float32_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t float32_attention(const AttentionParameters& parameters, int head_dim, cudaStream_t stream) {
  if (head_dim <= 16) return float32::launch<16>(parameters, head_dim, stream);
  if (head_dim <= 32) return float32::launch<32>(parameters, head_dim, stream);
  if (head_dim <= 64) return float32::launch<64>(parameters, head_dim, stream);
  if (head_dim <= 96) return float32::launch<96>(parameters, head_dim, stream);
  return float32::launch<128>(parameters, head_dim, stream);
}

}  // namespace foxscope::kernels::cuda
