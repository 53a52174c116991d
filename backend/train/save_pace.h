#pragma once

#include <chrono>
#include <cstdint>

namespace foxscope {

/// When a training is saved whose recipe does not say after how many steps: as often as takes 2 % of the time, but not
/// more often than once a minute, and not more seldom than every ten.
class SavePace {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  static constexpr double kShare = 0.02;  ///< of the time, that saving may take
  static constexpr Seconds kLeast{60};
  static constexpr Seconds kMost{600};

  /// @param bytes  of a checkpoint, by which the first one's time is estimated
  SavePace(std::int64_t bytes, Clock::time_point now);

  /// Whether it is time.
  [[nodiscard]] bool due(Clock::time_point now) const { return now - last_ >= interval(); }
  /// A checkpoint is written.
  /// @param taken  by its copy and by its writing, though the latter goes on beside the next steps: they share a CPU
  void saved(Clock::time_point now, Seconds taken);

  /// Seconds from one checkpoint to the next.
  [[nodiscard]] Seconds interval() const;

 private:
  Clock::time_point last_;
  Seconds taken_;
};

}  // namespace foxscope
