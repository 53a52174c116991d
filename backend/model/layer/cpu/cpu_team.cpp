#include "backend/model/layer/cpu/cpu_team.h"

#include <atomic>
#include <optional>

#include <ATen/Parallel.h>

namespace foxscope {

namespace {

// Begins and ends of teams. LibTorch's OpenMP orders what is written before a team with what the team reads; the thread
// sanitizer, which does not know OpenMP, sees it by this number.
std::atomic<std::int64_t> order = 0;

/// The pool of the calling thread.
kernels::ThreadPool& own_threads() {
  thread_local std::optional<kernels::ThreadPool> pool;
  thread_local int wanted = 0;
  if (!pool || wanted != at::get_num_threads()) {
    wanted = at::get_num_threads();
    pool.emplace(wanted);
  }
  return *pool;
}

}  // namespace

int CpuTeam::threads() const { return own_threads().threads(); }

void CpuTeam::run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) {
  own_threads().run(tasks, body);
}

int LibTorchTeam::threads() const { return at::get_num_threads(); }

void LibTorchTeam::run(std::int64_t tasks, const std::function<void(std::int64_t task, int thread)>& body) {
  std::atomic<std::int64_t> next = 0;
  // One range a thread; each then takes the next task when it is free, so long tasks may come first.
  const auto take_tasks = [&](std::int64_t begin, std::int64_t end) {
    (void)order.load();
    for (std::int64_t thread = begin; thread < end; ++thread) {
      for (std::int64_t task = next++; task < tasks; task = next++) body(task, static_cast<int>(thread));
    }
    ++order;
  };
  ++order;  // behind all that a thread reads first
  at::parallel_for(0, threads(), 1, take_tasks);
  (void)order.load();
}

void fit_team_to_system() {
  const int wanted = at::get_num_threads();
  const int started = kernels::ThreadPool(wanted).threads();
  if (started < wanted) at::set_num_threads(started);
}

}  // namespace foxscope
