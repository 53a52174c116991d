// Stands in for linear_steps.cu in a build without CUDA.
#include "kernels/cuda/linear/linear_steps.h"

namespace foxscope::kernels::cuda {

Status unit_heads(const UnitHeads& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status linear_output(const LinearOutput& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
