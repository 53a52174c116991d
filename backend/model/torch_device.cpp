#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>

#include "backend/model/composed_causal_lm.h"

namespace foxscope {

bool cuda_is_built() { return at::Context::hasCUDART(); }

std::int64_t free_device_memory(int index) {
  at::accelerator::emptyCache();
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(static_cast<at::DeviceIndex>(index)).first);
}

int cuda_device_count() { return at::hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0; }

}  // namespace foxscope
