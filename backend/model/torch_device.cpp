#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include "backend/model/composed_causal_lm.h"

namespace foxscope {
namespace {

/// Says nothing: what does not work is said where a GPU was asked for.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

}  // namespace

bool cuda_is_built() { return at::Context::hasCUDART(); }

std::int64_t free_device_memory(int index) {
  at::accelerator::emptyCache();
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(static_cast<at::DeviceIndex>(index)).first);
}

int cuda_device_count() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  return at::hasCUDA() ? static_cast<int>(at::getNumGPUs()) : 0;
}

}  // namespace foxscope
