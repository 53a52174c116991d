// Stands in for gate_scan.cu in a build without CUDA.
#include "kernels/cuda/steps/gate_scan.h"

namespace foxscope::kernels::cuda {

std::size_t gate_scan_workspace_bytes(std::int64_t /*heads*/, std::int64_t /*length*/) { return 0; }

Status gate_scan(const GateScan& /*arguments*/, Stream /*stream*/) { return Status::unavailable; }

}  // namespace foxscope::kernels::cuda
