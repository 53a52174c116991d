#include "kernels/executor.h"

#include <sched.h>

#include <algorithm>
#include <exception>

namespace foxscope::kernels {

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
    // No memory or no number for one more: those that there are do all the work.
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
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_ = 0;
    busy_ = threads();
    ++generation_;
  }
  start_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  body_ = nullptr;
}

void ThreadPool::drain(int thread) {
  std::unique_lock lock(mutex_);
  while (next_ < tasks_) {
    const std::int64_t task = next_++;
    lock.unlock();
    (*body_)(task, thread);
    lock.lock();
  }
  if (--busy_ == 0) done_.notify_all();
}

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [this, seen] { return stopping_ || generation_ != seen; });
    if (stopping_) return;
    seen = generation_;
    lock.unlock();
    drain(thread);
    lock.lock();
  }
}

}  // namespace foxscope::kernels
