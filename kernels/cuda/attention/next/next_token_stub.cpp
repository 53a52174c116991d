// Stands in for next_attention.cu and next_heads.cu in a build without CUDA.
#include "kernels/cuda/attention/next/next_token.h"

namespace foxscope::kernels::cuda {

Status next_rotations(const HeldSequence* /*sequences*/, std::int64_t /*batch*/, std::int64_t /*half*/,
                      const double* /*frequencies*/, float* /*table*/, Stream /*stream*/) {
  return Status::unavailable;
}

Status project_next_heads(const ProjectedHeads& /*heads*/, const HeldSequence* /*sequences*/, Stream /*stream*/) {
  return Status::unavailable;
}

Status next_attention(const NextAttention& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t next_attention_workspace_bytes(std::int64_t /*batch*/, std::int64_t /*heads*/, std::int64_t /*head_dim*/) {
  return 0;
}

}  // namespace foxscope::kernels::cuda
