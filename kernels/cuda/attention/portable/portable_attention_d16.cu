#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_16(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<portable::AttentionPlan<16, 32, 32, 3, 3>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
