#include "backend/agent/late_check.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace foxscope::agent {
namespace {

/// A machine of which nothing was asked for so long is idle.
constexpr std::chrono::milliseconds kQuiet{400};

struct Check {
  bool required = false;  ///< by require_checked, which throws its error
  bool done = false;
  std::string error;
  std::jthread thread;
};

struct Checks {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::list<Check> all;
};

Checks& checks() {
  static Checks* const one = new Checks;  // threads end by end_late_checks
  return *one;
}

void run_check(Check& check, const std::shared_ptr<Remote>& remote,
               const std::function<void(Remote& remote, const Job& job)>& request, const std::stop_token& stop) {
  std::string error;
  try {
    if (check.required || remote->wait_until_idle(kQuiet, stop)) request(*remote, Job{stop, {}, nullptr});
  } catch (const std::exception& failed) {
    if (!stop.stop_requested()) error = failed.what();
  }
  if (!check.required && !error.empty()) Remote::say(error);
  const std::lock_guard lock(checks().mutex);
  check.error = std::move(error);
  check.done = true;
  checks().changed.notify_all();
}

}  // namespace

void check_late(const std::shared_ptr<Remote>& remote, LateCheck when,
                std::function<void(Remote& remote, const Job& job)> request) {
  std::list<Check> done;  // joined without the lock
  const std::lock_guard lock(checks().mutex);
  std::list<Check>& all = checks().all;
  for (auto check = all.begin(); check != all.end();) {
    const auto next = std::next(check);
    if (check->done && !check->required) done.splice(done.end(), all, check);
    check = next;
  }
  Check& check = all.emplace_back();
  check.required = when == LateCheck::at_once;
  check.thread = std::jthread([&check, remote, request = std::move(request)](const std::stop_token& stop) {
    run_check(check, remote, request, stop);
  });
}

bool require_checked(const std::stop_token& stop) {
  std::unique_lock lock(checks().mutex);
  const auto open = [] {
    for (const Check& check : checks().all) {
      if (check.required && !check.done) return true;
    }
    return false;
  };
  if (!checks().changed.wait(lock, stop, [&] { return !open(); })) return false;
  for (const Check& check : checks().all) {
    if (check.required && !check.error.empty()) throw Error(check.error);
  }
  return true;
}

void end_late_checks() {
  std::list<Check> all;  // stopped and joined without the lock
  const std::lock_guard lock(checks().mutex);
  all.swap(checks().all);
}

}  // namespace foxscope::agent
