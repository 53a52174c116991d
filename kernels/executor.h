#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace foxscope::kernels {

/// Runs the tasks of a kernel on several threads. Kernels take one instead of owning threads, so that a
/// caller that already has a team (LibTorch's) lends it and no two teams fight for the same cores.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Number of threads that `run` uses, the calling one included; at least 1.
  [[nodiscard]] virtual int threads() const = 0;

  /// Calls body(task, thread) once for every task of [0, tasks), started in ascending order, each thread
  /// taking the next when it is free; thread is in [0, threads()). Returns when all have ended.
  /// The body must not throw.
  virtual void run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) = 0;
};

/// An executor with threads of its own: fewer than asked for where the system gives no more. One `run` at a time; not
/// to be called from inside a task. Between two runs a thread looks for tasks for a tenth of a millisecond before it
/// sleeps, and gives its core to whoever wants it meanwhile; `run` does not wait for threads that came too late for any
/// task. So small tasks follow each other fast, and on a machine with other work they are not held up by threads that
/// do not get a core.
class ThreadPool final : public Executor {
 public:
  /// @param threads  number of threads, the caller included; 0 means one for each available core
  explicit ThreadPool(int threads = 0);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const override { return static_cast<int>(workers_.size()) + 1; }
  void run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) override;

 private:
  void work(int thread);
  void drain(int thread);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(std::int64_t, int)>* body_ = nullptr;
  std::int64_t tasks_ = 0;
  std::int64_t next_ = 0;
  int sleeping_ = 0;                           ///< workers
  std::atomic<int> inside_ = 0;                ///< workers that are in a task
  std::atomic<std::uint64_t> generation_ = 0;  ///< of runs
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

/// Number of cores that this process may run on (its affinity mask); at least 1.
int available_cores();

}  // namespace foxscope::kernels
