#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace foxscope::cli {

/// Said on standard error, after the program's name, when a signal ended the work.
inline constexpr std::string_view kInterruptedMessage = "interrupted, no unfinished file is left";

/// Takes SIGINT, SIGTERM, SIGHUP (unless nohup has it ignored) and SIGUSR1 (by which Slurm warns of the end of a job's
/// time) on a thread of its own and asks the work to stop. Work that has not come to its end within a second is ended
/// with exit status 130. Unfinished files have no name, or their temporary names are removed: nothing stays behind but
/// what the work means to go on from.
class InterruptThread {
 public:
  /// Blocks the signals in this thread and in all that it starts later; to be called before there are others.
  InterruptThread();
  ~InterruptThread();
  InterruptThread(const InterruptThread&) = delete;
  InterruptThread& operator=(const InterruptThread&) = delete;

  [[nodiscard]] std::stop_token token() const { return m_source.get_token(); }

  /// From here on the first signal asks the work to stop and waits for it. The same signal ends it at once when it
  /// comes again two seconds later or after that: `timeout` sends its signal twice, and a terminal's Ctrl+C reaches a
  /// program beside the signal that its starter passes on.
  void waitForWork() { m_waits = true; }

  /// Sets the message for a signal that ends the work; at first kInterruptedMessage. For work that leaves something to
  /// go on from. Empty: no message, as in processes that another one speaks for.
  void say(std::string message);
  [[nodiscard]] std::string message() const;

  /// Gives the signals back their usual meaning, for a program that is about to take this one's place.
  static void restoreSignals();

 private:
  void wait();
  void waitForRepeat(int first) const;
  void waitForPatience() const;

  sigset_t m_signals{};
  std::stop_source m_source;
  std::atomic<bool> m_finished = false;
  std::atomic<bool> m_waits = false;
  mutable std::mutex m_mutex;
  std::string m_message{kInterruptedMessage};
  std::thread m_thread;
};

}  // namespace foxscope::cli
