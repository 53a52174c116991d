#pragma once

#include <functional>
#include <string>

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

}  // namespace foxscope::test
