#include "backend/agent/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"

extern char** environ;

namespace foxscope::agent {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kLastPatience{1000};

struct Pipe {
  int read = -1;
  int write = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe can be made: {}", std::strerror(errno)));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    for (const int end : {read, write}) {
      if (end >= 0) close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static int take(int& end) { return std::exchange(end, -1); }
};

struct SpawnSetting {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

  SpawnSetting() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // Whoever waits for signals has blocked them, and ignores that of pipes: the child is to have its own way.
    sigset_t none;
    sigset_t usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1}) sigaddset(&usual, number);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetting() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetting(const SpawnSetting&) = delete;
  SpawnSetting& operator=(const SpawnSetting&) = delete;
};

int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

Child::Child(const std::vector<std::string>& words) {
  Pipe input;
  Pipe output;
  Pipe errors;
  SpawnSetting setting;
  posix_spawn_file_actions_adddup2(&setting.actions, input.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&setting.actions, output.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&setting.actions, errors.write, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int failed =
      posix_spawnp(&pid_, words.front().c_str(), &setting.actions, &setting.attributes, arguments.data(), environ);
  if (failed != 0) {
    pid_ = -1;
    throw Error(fmt::format("{}: cannot be started ({})", words.front(), std::strerror(failed)));
  }
  input_ = Pipe::take(input.write);
  output_ = Pipe::take(output.read);
  errors_ = Pipe::take(errors.read);
}

Child::~Child() {
  close_input();
  finish(kPatience);
  close(output_);
  close(errors_);
}

void Child::close_input() {
  if (input_ >= 0) close(std::exchange(input_, -1));
}

void Child::terminate() const {
  if (pid_ > 0) kill(pid_, SIGTERM);
}

bool Child::wait_for_end(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::chrono::microseconds pause{200};
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) {
      pid_ = -1;
      status_ = ended < 0 ? 1 : shell_status(status);
      return true;
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

int Child::finish(std::chrono::milliseconds patience) {
  if (pid_ < 0 || wait_for_end(patience)) return status_;
  kill(pid_, SIGTERM);
  if (wait_for_end(kLastPatience)) return status_;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status_ = shell_status(status);
}

}  // namespace foxscope::agent
