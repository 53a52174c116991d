// Stands in for steps.cu in a build without CUDA.
#include "kernels/cuda/steps/steps.h"

namespace foxscope::kernels::cuda {

Status residual_norm(const ResidualNorm& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status project_heads(const ProjectedHeads& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status rotary_table(std::int64_t /*first_position*/, std::int64_t /*rows*/, std::int64_t /*half*/,
                    const double* /*frequencies*/, float* /*table*/, Stream /*stream*/) {
  return Status::unavailable;
}

Status gate_output(const GatedOutput& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status swiglu(const SwiGlu& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
