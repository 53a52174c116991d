#include "app/cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/cli/command.h"
#include "backend/base/atomic_file.h"

namespace foxscope::cli {
namespace {

sigset_t stopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// How long work may take to notice; with the way out this stays within a second.
constexpr timespec kPatience{0, 800'000'000};

}  // namespace

InterruptThread::InterruptThread() {
  const sigset_t signals = stopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
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
  const sigset_t signals = stopSignals();
  int signal = 0;
  if (sigwait(&signals, &signal) != 0 || m_finished) return;
  m_source.request_stop();
  if (m_waits) {
    sigwait(&signals, &signal);
  } else {
    sigtimedwait(&signals, nullptr, &kPatience);
  }
  if (m_finished) return;
  remove_unfinished_files();
  // The console's lock may be held by the work that did not stop.
  if (const std::string text = message(); !text.empty()) {
    const std::string line = fmt::format("{}foxscope: {}\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", text);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  _exit(kInterrupted);
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
  const sigset_t signals = stopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace foxscope::cli
