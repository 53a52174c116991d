// Status of a CUDA call. Private to kernels/cuda.
//
// The runtime keeps the last error of a thread until it is read, and the check after a launch reads it. So a call that
// fails takes its error along, or the next launch would be blamed for it.
#pragma once

#include <cuda_runtime.h>

#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Whether a call succeeded; its error is forgotten.
inline bool succeeded(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

inline Status status_of(cudaError_t error) { return succeeded(error) ? Status::ok : Status::failed; }

/// Status of the launches before.
inline Status launched() { return status_of(cudaGetLastError()); }

}  // namespace foxscope::kernels::cuda
