#include "backend/model/layer/cpu/cpu_workspace.h"

#include <utility>

namespace foxscope {

std::unique_ptr<CpuWorkspace> WorkspaceCache::take() {
  const std::scoped_lock lock(mutex_);
  return kept_ ? std::move(kept_) : std::make_unique<CpuWorkspace>();
}

void WorkspaceCache::keep(std::unique_ptr<CpuWorkspace> memory) {
  const std::scoped_lock lock(mutex_);
  kept_ = std::move(memory);
}

}  // namespace foxscope
