// Logs that a training goes on with.
#include "backend/train/training_log.h"

#include <filesystem>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/text/helpers.h"

namespace foxscope {
namespace {

class TrainingLogFile : public testing::Test {
 protected:
  static std::string line(int step) { return "{\"step\":" + std::to_string(step) + ",\"x\":1}\n"; }
  static std::string lines(int first, int last) {
    std::string text;
    for (int step = first; step <= last; ++step) text += line(step);
    return text;
  }
  void write(const std::string& content) const { test::write_bytes(log(), content); }
  [[nodiscard]] std::string content() const { return test::read_bytes(log()); }
  [[nodiscard]] std::filesystem::path log() const { return folder_ / "log.jsonl"; }
  [[nodiscard]] std::filesystem::path damaged() const { return folder_ / "log.jsonl.damaged"; }

  test::TemporaryFolder folder_;
};

TEST_F(TrainingLogFile, LinesBehindAStepAndATornOneAreCut) {
  for (const char* const torn : {"", "{\"step\": 6, \"lo"}) {
    write(lines(1, 5) + torn);
    EXPECT_TRUE(TrainingLog(log(), 3).damaged().empty());
    EXPECT_EQ(content(), lines(1, 3));
  }
  write(lines(1, 3) + "{\"st");
  EXPECT_TRUE(TrainingLog(log(), 3).damaged().empty());
  EXPECT_EQ(content(), lines(1, 3));
}

TEST_F(TrainingLogFile, ItIsCutAtTheFirstLineThatIsDamaged) {
  const std::string zeros(40, '\0');
  for (const std::string& bad :
       {zeros + "\n", std::string("{\"step\":3,\"x\"{\"step\":3}\n"), std::string("[]\n"), line(2), line(1)}) {
    const std::string before = lines(1, 2) + bad + lines(3, 5);
    write(before);
    EXPECT_EQ(TrainingLog(log(), 5).damaged(), damaged());
    EXPECT_EQ(content(), lines(1, 2)) << bad;
    EXPECT_EQ(test::read_bytes(damaged()), before);
  }
}

TEST_F(TrainingLogFile, AFirstLineThatIsDamagedIsCutAsAnyOther) {
  for (const std::string& before : {std::string("words\nmore\n"), "{\"st" + lines(1, 5)}) {
    for (const std::int64_t last_step : {0, 5}) {
      write(before);
      const TrainingLog cut(log(), last_step);
      EXPECT_EQ(cut.damaged(), damaged());
      EXPECT_EQ(cut.kept(), 0);
      EXPECT_EQ(content(), "");
      EXPECT_EQ(test::read_bytes(damaged()), before);
    }
  }
}

TEST_F(TrainingLogFile, WithoutItsCopyItIsNotCut) {
  std::filesystem::create_directory(damaged());
  const std::string before = lines(1, 2) + "[]\n";
  write(before);
  const std::string said = test::error_of<Error>([&] { TrainingLog(log(), 5); });
  EXPECT_NE(said.find("is damaged behind byte 34, and cannot be copied to log.jsonl.damaged"), std::string::npos)
      << said;
  EXPECT_EQ(content(), before);
}

// Of two that write, where a file system knows no locks, each line stays whole.
TEST_F(TrainingLogFile, LinesAreAddedAtTheEnd) {
  TrainingLog one(log(), 0);
  TrainingLog two(log(), 0);
  TrainingStep step;
  for (step.step = 1; step.step <= 4; ++step.step) {
    step.tokens = 64 * step.step;
    (step.step % 2 == 0 ? one : two).add(step);
  }
  LogPlace place;
  std::vector<TrainingStep> steps;
  read_training_steps(log(), place, steps);
  EXPECT_EQ(steps.size(), 4U);
}

}  // namespace
}  // namespace foxscope
