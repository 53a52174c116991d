#pragma once

#include <optional>

#include "backend/base/device_name.h"

namespace foxscope {

/// The GPU that is chosen for maps and statistics of a run file (RunOnDevice); none: the CPU.
/// @throws Error where that GPU does not exist in this build or on this machine
std::optional<int> gpu_chosen(const DeviceChoice& choice);

}  // namespace foxscope
