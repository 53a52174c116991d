#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "backend/base/job.h"
#include "kernels/executor.h"

namespace foxscope {

/// Runs the tasks of one job on the job's executor, or on threads of its own where it brings none. Stops between tasks
/// when asked to, carries the first exception of a task to the caller, and reports progress.
class Team {
 public:
  explicit Team(const Job& job);

  [[nodiscard]] int threads() const { return executor_->threads(); }
  /// The threads, for pieces of the job that make teams of their own, one after the other.
  [[nodiscard]] kernels::Executor* executor() const { return executor_; }
  /// Polled by long tasks too: true when they should end, because of the job or because another task failed.
  [[nodiscard]] bool stopped() const { return job_.stopped() || failed_; }

  /// The name of one round of work, and how much there is of it.
  struct Stage {
    std::string_view name;
    std::string_view unit;
    std::int64_t total = 0;
  };
  /// Adds to what is done; reported by the calling thread.
  void advance(std::int64_t amount, int thread);

  /// Calls body(task, thread) for every task of [0, tasks).
  /// @returns false if the job was stopped
  /// @throws what a task threw
  bool run(const Stage& stage, std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body);

 private:
  const Job& job_;
  std::optional<kernels::ThreadPool> own_;
  kernels::Executor* executor_ = nullptr;
  Stage stage_;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace foxscope
