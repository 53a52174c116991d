#include "backend/map/map_device.h"

#include "backend/base/device_name.h"
#include "kernels/cuda/device.h"

namespace foxscope {

std::optional<int> gpu_named(const std::string& name) {
  return gpu_named(
      name, {kernels::cuda::is_built, kernels::cuda::device_count, "CUDA device of compute capability 8.0 or later"});
}

}  // namespace foxscope
