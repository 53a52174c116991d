// Stands in for forgetting_attention_backward.cu in a build without CUDA.
#include "kernels/cuda/attention/forgetting_attention_backward.h"

namespace foxscope::kernels::cuda {

std::size_t backward_workspace_bytes(const ForgettingAttentionBackward& /*arguments*/) { return 0; }

Status forgetting_attention_backward(const ForgettingAttentionBackward& /*arguments*/, Stream /*stream*/,
                                     AttentionKernel /*kernel*/) {
  return Status::unavailable;
}

Status forgetting_attention_backward_float32(const ForgettingAttentionBackward& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

}  // namespace foxscope::kernels::cuda
