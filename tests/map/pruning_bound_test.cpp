// What adaptive computation pruning skips: the boundary entry by entry, and the attention that is given up.
#include "backend/map/statistics/pruning_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

RunShape forgetful(std::int64_t length, std::int64_t window = 0) {
  RunShape shape;
  shape.length = length;
  shape.heads = shape.key_heads = 3;
  shape.window = window;
  shape.log_gate = [](int head, std::int64_t, double normal) { return -(0.2 + head) * std::exp(0.5 * normal); };
  return shape;
}

TEST(PruningBound, TheBoundaryIsTheRuleEntryByEntry) {
  for (const std::int64_t window : {std::int64_t{0}, std::int64_t{70}}) {
    const auto run = make_run(forgetful(240, window));
    for (int head = 0; head < 3; ++head) {
      const auto bound = pruning_bound({run, 0, head}, kPruningTolerance, {});
      ASSERT_TRUE(bound);
      EXPECT_NEAR(bound->threshold, -2 * bound->largest_logit - std::log(240.0) - 10, 1e-9);
      const auto logits = DenseHead({run, 0, head}).entries(Quantity::logits);
      const auto c = run->cumulative_log_gate(0, head);
      std::int64_t entries = 0;
      std::int64_t skipped = 0;
      for (std::int64_t i = 0; i < 240; ++i) {
        for (std::int64_t j = window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0; j <= i; ++j) {
          const double decay = c[index_of(i)] - c[index_of(j)];
          const bool skips = decay < bound->threshold;
          EXPECT_EQ(skips, j < bound->first_kept[index_of(i)]) << i << ' ' << j;
          EXPECT_LE(std::abs(logits[index_of(i * 240 + j)]), bound->largest_logit * (1 + 1e-6));
          ++entries;
          skipped += skips ? 1 : 0;
        }
      }
      EXPECT_EQ(bound->entries, entries);
      EXPECT_EQ(bound->skipped, skipped);
      EXPECT_DOUBLE_EQ(bound->share(), static_cast<double>(skipped) / static_cast<double>(entries));
    }
  }
}

TEST(PruningBound, WhatIsSkippedHoldsNoMoreThanTheTolerance) {
  const auto run = make_run(forgetful(240));
  for (const double tolerance : {kPruningTolerance, 0.01, 0.5}) {
    const auto bound = pruning_bound({run, 0, 2}, tolerance, {});
    EXPECT_GT(bound->skipped, bound->entries / 10);
    const auto attention = DenseHead({run, 0, 2}).entries(Quantity::attention);
    for (std::int64_t i = 0; i < 240; ++i) {
      double given = 0;
      for (std::int64_t j = 0; j < bound->first_kept[index_of(i)]; ++j) given += attention[index_of(i * 240 + j)];
      EXPECT_LE(given, tolerance);
    }
  }
}

TEST(PruningBound, WithoutAGateNothingIsSkipped) {
  RunShape shape = forgetful(64);
  shape.gated = false;
  const auto bound = pruning_bound({make_run(shape), 0, 0}, kPruningTolerance, {});
  EXPECT_EQ(bound->skipped, 0);
  EXPECT_EQ(bound->entries, 64 * 65 / 2);
}

TEST(PruningBound, SaysWhatItCannotDo) {
  const auto run = make_run(forgetful(64));
  for (const double tolerance : {0.0, 1.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(pruning_bound({run, 0, 0}, tolerance, {}), UsageError);
  }
  EXPECT_THROW(pruning_bound({run, 0, 3}, kPruningTolerance, {}), UsageError);
  RunShape bare = forgetful(64);
  bare.keeps_query_key = bare.keeps_rows = false;
  EXPECT_THROW(pruning_bound({make_run(bare), 0, 0}, kPruningTolerance, {}), Error);
}

}  // namespace
}  // namespace foxscope::test
