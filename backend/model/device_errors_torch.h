#pragma once

#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/causal_lm.h"

namespace foxscope {

/// The first line of what LibTorch says.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// Runs an action on a device; LibTorch's exceptions become errors of one line.
/// @param length  tokens of the forward pass; 0 while weights are loaded
template <typename Action>
auto with_device_errors(const Device& device, std::int64_t length, const Action& action) {
  const std::string when = length > 0 ? fmt::format("a forward pass over {} tokens", length) : "the model's weights";
  try {
    return action();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(
        fmt::format("{}: not enough memory for {} ({}): use --limit with fewer tokens, --dtype bfloat16, or "
                    "--device cpu",
                    device.name(), when, first_line(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: LibTorch failed in {}: {}; try --device cpu", device.name(), when,
                            first_line(error.what_without_backtrace())));
  }
}

}  // namespace foxscope
