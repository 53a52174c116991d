#include "kernels/cuda/attention/portable/portable_attention.cuh"

namespace foxscope::kernels::cuda {

cudaError_t portable_attention_64(const AttentionParameters& parameters, cudaStream_t stream) {
  return portable::launch<64>(parameters, stream);
}

}  // namespace foxscope::kernels::cuda
