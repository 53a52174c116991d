// Stands in for forgetting_attention.cu in a build without CUDA.
#include "kernels/cuda/attention/forgetting_attention.h"

namespace foxscope::kernels::cuda {

AttentionKernel automatic_kernel(const ForgettingAttention& /*arguments*/) { return AttentionKernel::automatic; }

std::size_t workspace_bytes(const ForgettingAttention& /*arguments*/) { return 0; }

Status forgetting_attention(const ForgettingAttention& /*arguments*/, Stream /*stream*/, AttentionKernel /*kernel*/) {
  return Status::unavailable;
}

Status forgetting_attention_float32(const ForgettingAttention& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

}  // namespace foxscope::kernels::cuda
