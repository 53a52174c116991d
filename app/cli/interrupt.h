#pragma once

#include <pthread.h>

#include <atomic>
#include <stop_token>
#include <string_view>
#include <thread>

namespace foxscope::cli {

/// Said on standard error, after the program's name, when a signal ended the work.
inline constexpr std::string_view kInterruptedMessage = "interrupted, no unfinished file is left";

/// Takes SIGINT and SIGTERM on a thread of its own and asks the work to stop. Work that has not come to its end within
/// a second, or that a second signal finds still running, is ended with exit status 130: unfinished files have no name,
/// so nothing stays behind.
class InterruptThread {
 public:
  /// Blocks the signals in this thread and in all that it starts later; to be called before there are others.
  InterruptThread();
  ~InterruptThread();
  InterruptThread(const InterruptThread&) = delete;
  InterruptThread& operator=(const InterruptThread&) = delete;

  [[nodiscard]] std::stop_token token() const { return m_source.get_token(); }

  /// Gives the signals back their usual meaning, for a program that is about to take this one's place.
  static void restoreSignals();

 private:
  void wait();

  std::stop_source m_source;
  std::atomic<bool> m_finished = false;
  std::thread m_thread;
};

}  // namespace foxscope::cli
