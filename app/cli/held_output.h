#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace foxscope::cli {

/// Keeps back what one thread writes to standard output while this object lives. Only one lives at a time.
class HeldOutput {
 public:
  HeldOutput() { held() = ""; }
  ~HeldOutput() { held().reset(); }
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;

  /// Takes what is written now. @returns false where nothing is kept back
  static bool take(std::string_view data) {
    if (held()) held()->append(data);
    return held().has_value();
  }
  /// Gives what was kept back, fit for standard output; from here on nothing is kept.
  static std::string release() { return std::exchange(held(), std::nullopt).value_or(""); }

 private:
  static std::optional<std::string>& held() {
    static std::optional<std::string> text;
    return text;
  }
};

}  // namespace foxscope::cli
