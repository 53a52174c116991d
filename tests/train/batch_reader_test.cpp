// Batches that are read ahead of the steps that take them.
#include "backend/train/batch_reader.h"

#include <thread>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/train/train_test_support.h"

namespace foxscope {
namespace {

using test::Ids;

const RowSchedule::Options kOptions = {.rows = 7, .rows_per_step = 4, .seed = 3};

std::shared_ptr<const TokenRows> counted(std::int64_t bad_row = -1) {
  return std::make_shared<test::CountedRows>(7, 5, 1, bad_row);
}

/// [R, L] of a step, row after row.
Ids expected_labels(std::int64_t step) {
  const RowSchedule schedule(kOptions);
  Ids labels;
  for (std::int64_t r = 0; r < 4; ++r) {
    for (int t = 0; t < 5; ++t) labels.push_back(static_cast<std::int32_t>(schedule.row(step, r) * 5 + t));
  }
  return labels;
}

TEST(BatchReader, EveryStepHasItsRowsWhereverItBegins) {
  for (const std::int64_t first : {1, 2, 9}) {
    for (const int threads : {1, 3}) {
      BatchReader reader(counted(), RowSchedule(kOptions), {.first_step = first, .ahead = 3, .threads = threads});
      for (std::int64_t step = first; step < first + 20; ++step) {
        const auto batch = reader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->step, step);
        EXPECT_EQ(batch->rows, 4);
        EXPECT_EQ(batch->length, 5);
        EXPECT_EQ(batch->labels, expected_labels(step));
      }
    }
  }
}

TEST(BatchReader, RanksShareTheRowsOfAStep) {
  for (const int processes : {1, 2, 4}) {
    for (std::int64_t step = 1; step < 4; ++step) {
      Ids together;
      for (int rank = 0; rank < processes; ++rank) {
        BatchReader reader(counted(), RowSchedule(kOptions),
                           {.first_step = step, .rank = rank, .processes = processes});
        const auto batch = reader.next();
        EXPECT_EQ(batch->rows, 4 / processes);
        together.insert(together.end(), batch->labels.begin(), batch->labels.end());
      }
      EXPECT_EQ(together, expected_labels(step));
    }
  }
}

TEST(BatchReader, AnErrorComesAtItsStep) {
  const RowSchedule schedule(kOptions);
  const std::int64_t bad_row = schedule.row(2, 3);
  std::int64_t first_bad = 2;
  for (std::int64_t r = 0; r < 4; ++r) {
    if (schedule.row(1, r) == bad_row) first_bad = 1;
  }
  BatchReader reader(counted(bad_row), schedule, {.ahead = 8});
  for (std::int64_t step = 1; step < first_bad; ++step) EXPECT_EQ(reader.next()->labels, expected_labels(step));
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(test::error_of([&] { reader.next(); }), "row " + std::to_string(bad_row) + " is bad");
  }
}

/// Its rows can be read once they are let through.
class ClosedRows final : public TokenRows {
 public:
  ClosedRows() : TokenRows({7, 5, 1, "", ""}) {}
  void read(std::int64_t row, std::span<std::int32_t> tokens) const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    test::CountedRows(7, 5).read(row, tokens);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

TEST(BatchReader, WaitingIsStoppedAndTheStepComesLater) {
  const auto rows = std::make_shared<ClosedRows>();
  BatchReader reader(rows, RowSchedule(kOptions), {});
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(reader.next(source.get_token()));
  rows->open();
  EXPECT_EQ(reader.next()->labels, expected_labels(1));
  EXPECT_FALSE(reader.next(source.get_token()));
  EXPECT_EQ(reader.next()->labels, expected_labels(2));
}

TEST(BatchReader, BadShares) {
  EXPECT_EQ(test::error_of<UsageError>([] { BatchReader(counted(), RowSchedule(kOptions), {.processes = 3}); }),
            "a step of 4 rows does not divide among 3 processes: use a --batch-tokens of 30, or another number of "
            "processes");
}

}  // namespace
}  // namespace foxscope
