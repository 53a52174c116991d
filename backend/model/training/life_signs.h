#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace foxscope {

/// The signs of life of several processes. Each counts its signs up; a process that gives none for half a minute is
/// lost, where the watcher was awake all that time.
class LifeSigns {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLongestSilence{30};

  LifeSigns(int processes, Time now);

  /// The watcher looks: to be called every few seconds. One that did not for long was stopped or suspended, and the
  /// others probably with it: their silence counts from now.
  void look(Time now);
  /// @param count  of the process's signs, as the watcher finds it
  /// @returns whether the process is lost
  bool is_lost(int process, std::int64_t count, Time now);

 private:
  struct Sign {
    std::int64_t count = 0;
    Time seen;
  };
  std::vector<Sign> signs_;
  Time looked_;
};

}  // namespace foxscope
