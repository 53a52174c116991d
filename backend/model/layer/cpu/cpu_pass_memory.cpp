#include "backend/model/layer/cpu/cpu_pass_memory.h"

#include <utility>

namespace foxscope {

std::unique_ptr<CpuPassMemory> KeptPassMemory::take() {
  const std::scoped_lock lock(mutex_);
  return kept_ ? std::move(kept_) : std::make_unique<CpuPassMemory>();
}

void KeptPassMemory::keep(std::unique_ptr<CpuPassMemory> memory) {
  const std::scoped_lock lock(mutex_);
  kept_ = std::move(memory);
}

}  // namespace foxscope
