#include "backend/model/weights/device.h"

#include <optional>

#include <fmt/format.h>

#include "backend/model/forward_library.h"

namespace foxscope {

std::string Device::name() const { return cuda ? fmt::format("cuda:{}", index) : "cpu"; }

// A build without CUDA need not load LibTorch to know of GPUs: what is wrong with a command is told at once.
Device Device::of(const DeviceChoice& choice) {
  constexpr bool kBuilt = FOXSCOPE_WITH_CUDA != 0;
  const std::optional<int> gpu = gpu_chosen(
      choice,
      {[] { return kBuilt; }, [] { return kBuilt ? forward_library().cuda_device_count() : 0; }, "CUDA device"});
  return gpu ? Device{true, *gpu} : Device{};
}

}  // namespace foxscope
