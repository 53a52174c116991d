// Launches of maps ask this of the current device. Private to kernels/cuda.
#pragma once

#include "kernels/cuda/errors.cuh"

namespace foxscope::kernels::cuda::maps {

struct MapDevice {
  int multiprocessors = 0;
  int shared_bytes = 0;  ///< most of a block
};

/// @returns false where the device does not answer
inline bool current(MapDevice& device) {
  int index = 0;
  return succeeded(cudaGetDevice(&index)) &&
         succeeded(cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, index)) &&
         succeeded(cudaDeviceGetAttribute(&device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
}

}  // namespace foxscope::kernels::cuda::maps
