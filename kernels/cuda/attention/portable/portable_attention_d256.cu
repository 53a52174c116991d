#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_256(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<portable::AttentionPlan<256, 16, 32, 2, 1>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
