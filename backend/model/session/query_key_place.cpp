#include "backend/model/session/query_key_place.h"

#include <filesystem>

#include "backend/model/forward_library.h"
#include "backend/trace/device_query_key_store.h"
#include "kernels/cuda/device.h"

namespace foxscope {
QueryKeyPlace::QueryKeyPlace(const RunNeeds& needs, std::int64_t length, const FreeMemory& free, const MemoryUser& user,
                             std::optional<int> gpu)
    : kept_(needs.host.stored_per_token > 0), gpu_(gpu) {
  const FreeMemory left = memory_left(needs, length, free, user);
  host_budget_ = left.host / 4 * 3;
  on_gpu_ = kept_ && gpu && needs.gpu && needs.gpu->stored_per_token * length <= left.gpu;
}

std::shared_ptr<RunQueryKeyStore> QueryKeyPlace::make_store(const TraceInfo& info, const KeepSet& keep) const {
  const QueryKeyStore::Parts parts = stored_arrays(keep);
  if (!kept_ || parts.empty()) return nullptr;
  if (on_gpu_) {
    const kernels::cuda::DeviceScope scope(*gpu_);
    const std::size_t bytes = QueryKeyStore::bytes(info, info.dtype, parts);
    // If need be where LibTorch holds memory of former runs without use.
    if (kernels::cuda::free_memory() >= bytes ||
        forward_library().free_device_memory(*gpu_) >= static_cast<std::int64_t>(bytes)) {
      return std::make_shared<DeviceQueryKeyStore>(info, info.dtype, *gpu_, parts);
    }
  }
  return std::make_shared<HostQueryKeyStore>(info, info.dtype, static_cast<std::size_t>(host_budget_),
                                             std::filesystem::temp_directory_path(), gpu_, parts);
}

std::optional<int> kernel_gpu(const Device& device) {
  if (!device.cuda) return std::nullopt;
  const kernels::cuda::DeviceScope scope(device.index);
  return kernels::cuda::is_available() ? std::optional(device.index) : std::nullopt;
}

}  // namespace foxscope
