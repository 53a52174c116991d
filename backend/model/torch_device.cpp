#include <ATen/Context.h>

#include "backend/model/composed_causal_lm.h"

namespace foxscope {

bool cuda_is_built() { return at::Context::hasCUDART(); }

int cuda_device_count() { return at::hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0; }

}  // namespace foxscope
