#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_96(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<96>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
