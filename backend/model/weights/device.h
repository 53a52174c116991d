#pragma once

#include <string>

#include "backend/base/device_name.h"

namespace foxscope {

/// Where a model computes.
struct Device {
  bool cuda = false;
  int index = 0;
  [[nodiscard]] std::string name() const;  ///< "cpu", "cuda:0"
  /// @throws Error where that device does not exist in this build or on this machine
  static Device of(const DeviceChoice& choice);
};

}  // namespace foxscope
