// Work that waits until its bytes are free.
#include "backend/serve/byte_budget.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

const auto kStays = [] { return false; };

TEST(ByteBudget, NeverHoldsMoreThanThereIs) {
  ByteBudget budget(100, 0);
  std::atomic<std::int64_t> taken = 0;
  std::atomic<std::int64_t> most = 0;
  std::vector<std::jthread> threads;
  for (std::int64_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t n = 0; n < 200; ++n) {
        const std::int64_t bytes = 1 + (thread * 37 + n * 11) % 100;
        const auto share = budget.take(static_cast<std::size_t>(bytes), kStays);
        const std::int64_t now = taken += bytes;
        for (std::int64_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        taken -= bytes;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 100);
  EXPECT_NE(budget.take(100, kStays), nullptr) << "all of it is there again";
}

TEST(ByteBudget, WhoWantsMoreThanThereIsHasAllOfIt) {
  ByteBudget budget(100, 10);
  const auto all = budget.take(1000, kStays);
  int asked = 0;
  EXPECT_EQ(budget.take(11, [&] { return ++asked == 2; }), nullptr);
  EXPECT_EQ(asked, 2);
  EXPECT_NE(budget.take(10, kStays), nullptr) << "little is not counted";
}

TEST(ByteBudget, ThreadsGoInTheOrderInWhichTheyCame) {
  ByteBudget budget(100, 0);
  auto held = budget.take(60, kStays);
  std::atomic<bool> waits = false;
  std::atomic<bool> large_went = false;
  std::jthread large([&] {
    const auto share = budget.take(100, [&] {
      waits = true;
      return false;
    });
    large_went = true;
  });
  while (!waits) std::this_thread::yield();
  // Its 40 bytes are free, but it came later.
  int asked = 0;
  EXPECT_EQ(budget.take(40, [&] { return ++asked == 2; }), nullptr);
  EXPECT_FALSE(large_went);
  held.reset();
  large.join();
  EXPECT_TRUE(large_went);
}

}  // namespace
}  // namespace foxscope
