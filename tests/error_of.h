#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"

namespace foxscope::test {

/// The message of the `Expected` that `action` throws, which must be one line; empty if it throws nothing. Anything
/// else that it throws goes on.
template <typename Expected = Error>
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Expected& error) {
    std::string message = error.what();
    EXPECT_EQ(message.find_first_of("\n\r"), std::string::npos) << message;
    return message;
  }
  return {};
}

/// Whether a text holds all of these parts.
using Parts = std::vector<std::string>;
inline bool says(const std::string& text, const Parts& parts) {
  return std::ranges::all_of(parts, [&text](const std::string& part) { return text.find(part) != std::string::npos; });
}

}  // namespace foxscope::test
