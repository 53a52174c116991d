#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_128(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<portable::AttentionPlan<128, 32, 64, 2, 2>, portable::AttentionPlan<128, 32, 32, 2, 2>>(
      parameters, stream);
}

}  // namespace foxscope::kernels::cuda
