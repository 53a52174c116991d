#include "kernels/executor.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace foxscope::kernels {

namespace {

/// How long a thread looks for what it waits for before it sleeps: as long as it takes to wake one, and then some.
constexpr std::chrono::microseconds kLooking{100};

/// Returns when something has come to be, or after that time.
template <typename Condition>
void look_for(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kLooking;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  const int count = threads > 0 ? threads : available_cores();
  workers_.reserve(static_cast<std::size_t>(count - 1));
  try {
    for (int thread = 1; thread < count; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::exception&) {
    // Without memory or a number for one more, the threads that there are do all the work.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) {
  if (tasks <= 0) return;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_ = 0;
    ++generation_;
    wake = sleeping_ > 0 && tasks > 1;
  }
  if (wake) start_.notify_all();
  drain(0);
  look_for([this] { return inside_ == 0; });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return inside_ == 0; });
  body_ = nullptr;
}

void ThreadPool::drain(int thread) {
  std::unique_lock lock(mutex_);
  while (next_ < tasks_) {
    const std::int64_t task = next_++;
    if (thread > 0) ++inside_;
    lock.unlock();
    (*body_)(task, thread);
    lock.lock();
    if (thread > 0 && --inside_ == 0 && next_ == tasks_) done_.notify_one();
  }
}

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  const auto called = [&] { return stopping_ || generation_ != seen; };
  while (true) {
    look_for(called);
    {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      start_.wait(lock, called);
      --sleeping_;
      if (stopping_) return;
      seen = generation_;
    }
    drain(thread);
  }
}

}  // namespace foxscope::kernels
