#pragma once

#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/weights/device.h"

namespace foxscope {

/// The first line of what LibTorch says.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// Runs an action on a device; LibTorch's exceptions become errors of one line.
/// @param when    what is done, "a forward pass over 64 tokens"
/// @param remedy  for too little memory, "use --length with fewer tokens"
template <typename Action>
auto with_device_errors(const Device& device, const std::string& when, std::string_view remedy, const Action& action) {
  try {
    return action();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(fmt::format("{}: not enough memory for {} ({}): {}", device.name(), when,
                            first_line(error.what_without_backtrace()), remedy));
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: LibTorch failed in {}: {}; try --device cpu", device.name(), when,
                            first_line(error.what_without_backtrace())));
  }
}

/// @param length  tokens of the forward pass; 0 while weights are loaded
template <typename Action>
auto with_device_errors(const Device& device, std::int64_t length, const Action& action) {
  return with_device_errors(device,
                            length > 0 ? fmt::format("a forward pass over {} tokens", length) : "the model's weights",
                            "use --length with fewer tokens, --dtype bfloat16, or --device cpu", action);
}

}  // namespace foxscope
