#include "backend/map/device/map_device.h"

#include "kernels/cuda/device.h"

namespace foxscope {

std::optional<int> gpu_chosen(const DeviceChoice& choice) {
  return gpu_chosen(
      choice, {kernels::cuda::is_built, kernels::cuda::device_count, "CUDA device of compute capability 8.0 or later"});
}

}  // namespace foxscope
