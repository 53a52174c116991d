// Stands in for delta_chunks.cu in a build without CUDA.
#include "kernels/cuda/linear/delta_chunks.h"

namespace foxscope::kernels::cuda {

Status delta_chunks(const DeltaChunks& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

Status delta_states(const DeltaStates& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
