#include "kernels/executor.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"

namespace foxscope::kernels {
namespace {

std::vector<int> times_run(Executor& executor, std::int64_t tasks) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(tasks));
  executor.run(tasks, [&](std::int64_t task, int) { ++counts[index_of(task)]; });
  return {counts.begin(), counts.end()};
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t tasks : {0, 1, 2, 3, 7, 100, 5000}) {
      EXPECT_EQ(times_run(pool, tasks), std::vector<int>(static_cast<std::size_t>(tasks), 1));
    }
  }
}

TEST(ThreadPool, ReturnsOnlyWhenAllTasksHaveEnded) {
  ThreadPool pool(4);
  for (int run = 0; run < 2000; ++run) {
    // Not atomic: a task that still ran when `run` returns would be a race.
    std::vector<int> results(5, 0);
    pool.run(5, [&](std::int64_t task, int) { results[index_of(task)] = run + 1; });
    ASSERT_EQ(std::accumulate(results.begin(), results.end(), 0), 5 * (run + 1));
  }
}

TEST(ThreadPool, NoTwoTasksAtATimeShareAThreadIndex) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared = false;
  pool.run(20000, [&](std::int64_t, int thread) {
    if (thread < 0 || thread >= 4 || inside[index_of(thread)]++ != 0) shared = true;
    --inside[index_of(thread)];
  });
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, StartsTasksInAscendingOrder) {
  ThreadPool one(1);
  std::vector<std::int64_t> order;
  one.run(100, [&](std::int64_t task, int) { order.push_back(task); });
  std::vector<std::int64_t> ascending(100);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(order, ascending);

  ThreadPool several(3);
  std::vector<std::vector<std::int64_t>> orders(3);
  several.run(1000, [&](std::int64_t task, int thread) { orders[index_of(thread)].push_back(task); });
  for (const auto& of_thread : orders) EXPECT_TRUE(std::is_sorted(of_thread.begin(), of_thread.end()));
}

TEST(ThreadPool, PoolsInsideTasksOfAnotherPoolWork) {
  ThreadPool outer(3);
  std::atomic<int> total = 0;
  outer.run(6, [&](std::int64_t task, int) {
    ThreadPool inner(2);
    inner.run(task, [&](std::int64_t, int) { ++total; });
  });
  EXPECT_EQ(total, 0 + 1 + 2 + 3 + 4 + 5);
}

/// Of this process.
std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(ThreadPool, LeavesNoThreadThoughItHasNeverRun) {
  const std::ptrdiff_t before = thread_count();
  {
    const ThreadPool pool(4);
    EXPECT_EQ(thread_count(), before + 3);
  }
  for (int i = 0; i < 100; ++i) std::make_unique<ThreadPool>(4).reset();
  // The system lists a thread for a moment after it has been waited for.
  for (int look = 0; look < 100'000 && thread_count() > before; ++look) std::this_thread::yield();
  EXPECT_EQ(thread_count(), before);
}

TEST(ThreadPool, WorksOnWithFewerThreadsWhereTheSystemGivesNoMore) {
  // In a child of another user, so that neither this process nor others of the user are in the way.
  const pid_t child = fork();
  if (child == 0) {
    const auto user = static_cast<uid_t>(100'000 + getpid());
    const bool alone = geteuid() == 0 && setuid(user) == 0;
    const rlimit limit{alone ? 3U : 1U, alone ? 3U : 1U};
    setrlimit(RLIMIT_NPROC, &limit);
    ThreadPool pool(8);
    const bool fewer = pool.threads() < 8 && (!alone || pool.threads() > 1);
    const bool whole = times_run(pool, 1000) == std::vector<int>(1000, 1);
    _exit(fewer && whole ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(ThreadPool, TakesOneThreadForEachAvailableCore) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(ThreadPool().threads(), available_cores());
}

}  // namespace
}  // namespace foxscope::kernels
