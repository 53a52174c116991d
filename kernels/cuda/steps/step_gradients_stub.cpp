// Stands in for the step_gradients files in a build without CUDA.
#include "kernels/cuda/steps/step_gradients.h"

namespace foxscope::kernels::cuda {

std::size_t workspace_bytes(const ResidualNormGradient& /*arguments*/) { return 0; }
Status residual_norm_gradient(const ResidualNormGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

std::size_t workspace_bytes(const ProjectedHeadsGradient& /*arguments*/) { return 0; }
Status project_heads_gradient(const ProjectedHeadsGradient& /*arguments*/, Stream /*stream*/) {
  return Status::unavailable;
}

std::size_t workspace_bytes(const GatedOutputGradient& /*arguments*/) { return 0; }
Status gate_output_gradient(const GatedOutputGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status swiglu_gradient(const SwiGluGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status token_loss_gradient(const TokenLossGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status forget_gate_gradient(const ForgetGateGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

std::size_t workspace_bytes(const EmbeddingGradient& /*arguments*/) { return 0; }
Status embedding_gradient(const EmbeddingGradient& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
