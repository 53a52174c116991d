#include "app/cli/interrupt.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/cli/command.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"

namespace foxscope::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
// How long work may take to notice; with the way out this stays within a second.
constexpr std::chrono::milliseconds kPatience{800};
// A signal that comes again sooner is the same request.
constexpr std::chrono::seconds kRepeat{2};

sigset_t signalSet(bool ignoredToo) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kStopSignals) {
    struct sigaction current {};
    const bool ignored = sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
    if (number != SIGHUP || !ignored || ignoredToo) sigaddset(&signals, number);
  }
  return signals;
}

}  // namespace

InterruptThread::InterruptThread() : m_signals(signalSet(/*ignoredToo=*/false)) {
  pthread_sigmask(SIG_BLOCK, &m_signals, nullptr);
  // A reader that closes the pipe shows as EPIPE where we write, which ends the program quietly.
  std::signal(SIGPIPE, SIG_IGN);
  // A file beyond the process's limit is an error of its write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  m_thread = std::thread([this] { wait(); });
}

InterruptThread::~InterruptThread() {
  m_finished = true;
  pthread_kill(m_thread.native_handle(), SIGINT);  // only wakes it
  m_thread.join();
}

void InterruptThread::wait() {
  int signal = 0;
  if (sigwait(&m_signals, &signal) != 0 || m_finished) return;
  m_source.request_stop();
  if (m_waits) {
    waitForRepeat(signal);
  } else {
    waitForPatience();
  }
  if (m_finished) return;
  remove_unfinished_files();
  agent::remove_temporary_folders();
  // The console's lock may be held by the work that did not stop.
  if (const std::string text = message(); !text.empty()) {
    const std::string line = fmt::format("{}foxscope: {}\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", text);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  _exit(kInterrupted);
}

// Returns when one of the signals has come again, or the work has ended.
void InterruptThread::waitForRepeat(int first) const {
  std::map<int, Clock::time_point> came{{first, Clock::now()}};
  while (!m_finished) {
    int signal = 0;
    if (sigwait(&m_signals, &signal) != 0) return;
    const auto [known, isNew] = came.emplace(signal, Clock::now());
    if (!isNew && Clock::now() - known->second >= kRepeat) return;
  }
}

// Returns when the patience is used up, whatever signals come until then, or the work has ended.
void InterruptThread::waitForPatience() const {
  const auto end = Clock::now() + kPatience;
  for (auto now = Clock::now(); now < end && !m_finished; now = Clock::now()) {
    const timespec left{0, std::chrono::nanoseconds(end - now).count()};
    sigtimedwait(&m_signals, nullptr, &left);
  }
}

void InterruptThread::say(std::string message) {
  const std::lock_guard lock(m_mutex);
  m_message = std::move(message);
}

std::string InterruptThread::message() const {
  const std::lock_guard lock(m_mutex);
  return m_message;
}

void InterruptThread::restoreSignals() {
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  const sigset_t signals = signalSet(/*ignoredToo=*/true);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace foxscope::cli
