#pragma once

#include <optional>

#include <c10/core/DeviceGuard.h>

#include "backend/model/weights/device.h"
#include "kernels/cuda/device.h"

namespace foxscope {

inline c10::Device torch_device(const Device& device) {
  return device.cuda ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index)) : c10::Device(c10::kCPU);
}

/// Makes a GPU current for LibTorch and for the kernels, each of which has a CUDA runtime of its own.
class CurrentDevice {
 public:
  explicit CurrentDevice(const c10::Device& device) : of_torch_(device) {
    if (device.is_cuda()) of_kernels_.emplace(device.index());
  }

 private:
  c10::DeviceGuard of_torch_;
  std::optional<kernels::cuda::DeviceScope> of_kernels_;
};

}  // namespace foxscope
