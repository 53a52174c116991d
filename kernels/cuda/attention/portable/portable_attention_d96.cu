#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_96(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<portable::AttentionPlan<96, 32, 32, 3, 2>>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
