// Orders of rows: what each epoch and each step reads.
#include "backend/train/row_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/error_of.h"

namespace foxscope {
namespace {

using Rows = std::vector<std::int64_t>;

Rows permutation(std::int64_t rows, std::uint64_t seed, std::uint64_t epoch, std::int64_t first = -1) {
  Rows result;
  for (std::int64_t n = 0; n < (first < 0 ? rows : first); ++n) result.push_back(shuffled_row(n, rows, seed, epoch));
  return result;
}

Rows all_rows(std::int64_t rows) {
  Rows result(static_cast<std::size_t>(rows));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

Rows sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

Rows step_of(const RowSchedule& schedule, std::int64_t step) {
  Rows result;
  for (std::int64_t r = 0; r < schedule.rows_per_step(); ++r) result.push_back(schedule.row(step, r));
  return result;
}

/// Rows of steps 1 .. steps.
Rows rows_read(const RowSchedule& schedule, std::int64_t steps) {
  Rows result;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Rows rows = step_of(schedule, step);
    result.insert(result.end(), rows.begin(), rows.end());
  }
  return result;
}

TEST(ShuffledRow, IsAPermutation) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 1000, 4097}) {
    for (const std::uint64_t epoch : {0, 1, 77}) {
      EXPECT_EQ(sorted(permutation(rows, 42, epoch)), all_rows(rows)) << rows << " rows, epoch " << epoch;
    }
  }
}

// By a program of its own, in Python's integers of any size.
TEST(ShuffledRow, IsTheSameOnEveryPlatform) {
  EXPECT_EQ(permutation(10, 0, 0), (Rows{5, 2, 8, 6, 0, 4, 9, 7, 1, 3}));
  EXPECT_EQ(permutation(10, 0, 1), (Rows{3, 9, 5, 2, 4, 0, 7, 8, 1, 6}));
  EXPECT_EQ(permutation(10, 1, 0), (Rows{7, 3, 5, 1, 0, 4, 6, 8, 2, 9}));
  EXPECT_EQ(permutation(1000, 7, 3, 10), (Rows{536, 650, 911, 281, 785, 621, 822, 726, 445, 209}));
  EXPECT_EQ(permutation(100'000'000, ~std::uint64_t{0}, 12345, 10),
            (Rows{27456555, 62990505, 68705038, 37318674, 80913238, 4119225, 51418112, 49828152, 60198624, 60416734}));
}

TEST(ShuffledRow, SeedsAndEpochsDiffer) {
  std::set<Rows> seen;
  for (const std::uint64_t seed : {0, 1, 2}) {
    for (const std::uint64_t epoch : {0, 1, 2}) seen.insert(permutation(1000, seed, epoch));
  }
  EXPECT_EQ(seen.size(), 9);
}

/// Pearson's statistic of counts that should be equal.
template <std::size_t N>
double chi_square(const std::array<int, N>& counts, double expected) {
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(ShuffledRow, EveryRowAndEveryPairIsEquallyLikelyAnywhere) {
  constexpr int kSeeds = 36'000;
  std::array<int, 10> first{};
  std::array<int, 10> last{};
  std::array<int, 90> pair{};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto a = static_cast<std::size_t>(shuffled_row(0, 10, seed, 0));
    const auto b = static_cast<std::size_t>(shuffled_row(1, 10, seed, 0));
    ++first[a];
    ++last[index_of(shuffled_row(9, 10, 0, seed))];
    ++pair[a * 9 + (b > a ? b - 1 : b)];
  }
  // The 0.999 quantiles for 9 and 89 degrees of freedom.
  EXPECT_LT(chi_square(first, kSeeds / 10.0), 27.9);
  EXPECT_LT(chi_square(last, kSeeds / 10.0), 27.9);
  EXPECT_LT(chi_square(pair, kSeeds / 90.0), 135.0);
}

TEST(RowSchedule, EachEpochReadsEachRowOnce) {
  for (const std::int64_t per_step : {1, 3, 7, 8}) {
    const RowSchedule schedule({.rows = 7, .rows_per_step = per_step, .seed = 5});
    const Rows rows = rows_read(schedule, 21);
    std::set<Rows> epochs;
    for (std::size_t epoch = 0; (epoch + 1) * 7 <= rows.size(); ++epoch) {
      const Rows one(rows.begin() + static_cast<std::ptrdiff_t>(epoch * 7),
                     rows.begin() + static_cast<std::ptrdiff_t>(epoch * 7 + 7));
      EXPECT_EQ(sorted(one), all_rows(7));
      epochs.insert(one);
    }
    EXPECT_GT(epochs.size(), 1) << "epochs are in one order";
  }
}

TEST(RowSchedule, RowsDoNotDependOnHowManyAStepHas) {
  const RowSchedule few({.rows = 11, .rows_per_step = 2, .seed = 1});
  const RowSchedule many({.rows = 11, .rows_per_step = 6, .seed = 1});
  EXPECT_EQ(rows_read(few, 12), rows_read(many, 4));
}

TEST(RowSchedule, SequentialBeginsAgainInsideAStep) {
  const RowSchedule schedule({.rows = 5, .rows_per_step = 3, .order = RowOrder::sequential});
  EXPECT_EQ(rows_read(schedule, 4), (Rows{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
  EXPECT_EQ(step_of(schedule, 5'000'000'001), (Rows{0, 1, 2}));
}

// LongCrawl64 by loops: columns, then groups of documents, then the documents of a group.
TEST(RowSchedule, DocumentsAreReadColumnByColumn) {
  const std::int64_t columns = 4;
  for (const std::int64_t documents : {6, 7, 8}) {
    const std::int64_t per_step = 3;
    Rows expected;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (std::int64_t column = 0; column < columns; ++column) {
        for (std::int64_t document = 0; document < documents / per_step * per_step; ++document) {
          expected.push_back(document * columns + column);
        }
      }
    }
    const RowSchedule schedule(
        {.rows = documents * columns, .columns = columns, .rows_per_step = per_step, .order = RowOrder::sequential});
    EXPECT_EQ(rows_read(schedule, static_cast<std::int64_t>(expected.size()) / per_step), expected);
  }
}

// The paper's run: batch b reads column b div 206,541 of documents 32 (b mod 206,541) .. +31.
TEST(RowSchedule, LongCrawl64) {
  const RowSchedule schedule({.rows = 6'609'334 * 4, .columns = 4, .rows_per_step = 32, .order = RowOrder::sequential});
  EXPECT_EQ(schedule.row(1, 0), 0);
  EXPECT_EQ(schedule.row(92'160, 31), (2'949'120 - 1) * 4);
  EXPECT_EQ(schedule.row(206'541, 31), (6'609'312 - 1) * 4);
  EXPECT_EQ(schedule.row(206'542, 0), 1);
  EXPECT_EQ(schedule.row(3 * 206'541 + 2, 5), (32 + 5) * 4 + 3);
}

TEST(RowSchedule, BadSteps) {
  EXPECT_EQ(test::error_of<UsageError>([] { RowSchedule({.rows = 4, .rows_per_step = 0}); }),
            "a step of 0 rows: use a --batch-tokens of at least --length");
  const RowSchedule::Options many = {.rows = 8, .columns = 2, .rows_per_step = 5, .order = RowOrder::sequential};
  EXPECT_EQ(test::error_of<UsageError>([&] { RowSchedule{many}; }),
            "--order sequential: a step takes 5 rows of as many documents, the data have 4 documents: use a smaller "
            "--batch-tokens, or --order shuffled");
  EXPECT_EQ(RowSchedule({.rows = 8, .columns = 2, .rows_per_step = 5}).rows_per_step(), 5);
}

}  // namespace
}  // namespace foxscope
