#pragma once

#include <chrono>
#include <optional>

namespace foxscope {

/// Says when progress is written as a line where no bar can be drawn, as in a log: first 10 s after the work began, so
/// that short work writes none, then at most every 30 s.
class LinePace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirst{10};
  static constexpr std::chrono::seconds kNext{30};

  /// Whether a line is due; it then counts as written. The first call is the beginning of the work.
  bool due(Clock::time_point now) {
    if (!next_) next_ = now + kFirst;
    if (now < *next_) return false;
    next_ = now + kNext;
    return true;
  }

 private:
  std::optional<Clock::time_point> next_;
};

}  // namespace foxscope
