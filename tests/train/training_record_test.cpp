// The logs of a training: what is read, what is refused, and that a log that grows is read on where it was left.
#include "backend/train/training_record.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/train/folder_lock.h"
#include "backend/train/training_log.h"
#include "tests/text/helpers.h"

namespace foxscope {
namespace {

namespace fs = std::filesystem;
using test::Parts;

std::string step_line(int step, double loss = 2) {
  return R"({"step": )" + std::to_string(step) + R"(, "tokens": )" + std::to_string(64 * step) + R"(, "loss": )" +
         std::to_string(loss) + R"(, "grad_norm": 1, "lr": 0.1})" + "\n";
}

std::string measures_line(int step, const std::string& more) {
  return R"({"step": )" + std::to_string(step) + R"(, "tokens": )" + std::to_string(64 * step) + more + "}\n";
}

/// The folder of a training.
struct Training {
  test::TemporaryFolder folder;

  Training() {
    fs::create_directories(folder.path() / "checkpoints");
    test::write_bytes(folder / "recipe.json", "{}");
  }
  void log(const std::string& content) const { test::write_bytes(folder / "log.jsonl", content); }
  void measures(const std::string& content) const { test::write_bytes(folder / "evaluation.jsonl", content); }
  void add(const std::string& content) const {
    std::ofstream(folder / "log.jsonl", std::ios::binary | std::ios::app) << content;
  }
  [[nodiscard]] std::string refusal() const {
    return test::error_of([&] { static_cast<void>(read_training(folder.path())); });
  }
};

std::vector<std::int64_t> numbers_of(const TrainingRecord& record) {
  std::vector<std::int64_t> numbers;
  for (const TrainingStep& step : record.steps) numbers.push_back(step.step);
  return numbers;
}

TEST(TrainingReader, ReadsOnWhereItLeft) {
  const Training training;
  TrainingReader reader(training.folder.path());
  std::string whole = step_line(1) + step_line(2);
  training.log(whole);
  EXPECT_EQ(numbers_of(*reader.read()), (std::vector<std::int64_t>{1, 2}));
  // A line comes in two pieces.
  const std::string third = step_line(3);
  training.add(third.substr(0, 20));
  EXPECT_EQ(numbers_of(*reader.read()), (std::vector<std::int64_t>{1, 2}));
  training.add(third.substr(20) + step_line(4));
  const auto record = reader.read();
  EXPECT_EQ(numbers_of(*record), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(record->steps[3].tokens, 256);
  // What was read is not read once more: nobody sees that it is damaged.
  std::string damaged = test::read_bytes(training.folder / "log.jsonl");
  damaged.replace(0, step_line(1).size(), std::string(step_line(1).size() - 1, '?') + "\n");
  training.log(damaged + step_line(5));
  EXPECT_EQ(numbers_of(*reader.read()), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1 is not a step of a training"}));
}

TEST(TrainingReader, BeginsAnewWhereALogIsAnother) {
  const Training training;
  TrainingReader reader(training.folder.path());
  training.log(step_line(1) + step_line(2) + step_line(3));
  training.measures(measures_line(2, R"(, "loss": 3.5)"));
  EXPECT_EQ(reader.read()->measures.size(), 1U);
  // Cut, as a training that goes on from an earlier checkpoint does.
  training.log(step_line(1) + step_line(2));
  EXPECT_EQ(numbers_of(*reader.read()), (std::vector<std::int64_t>{1, 2}));
  // Cut and written on, as long as it was.
  training.log(step_line(1) + step_line(2, 7));
  EXPECT_EQ(reader.read()->steps[1].loss, 7);
  training.log(step_line(4) + step_line(5) + step_line(6));
  fs::remove(training.folder / "evaluation.jsonl");
  const auto record = reader.read();
  EXPECT_EQ(numbers_of(*record), (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_TRUE(record->measures.empty());
}

TEST(TrainingReader, KnowsWhatIsToCome) {
  const Training training;
  TrainingReader reader(training.folder.path());
  const auto timed = [](int step, int seconds) {
    std::string line = step_line(step);
    return line.insert(line.find('}'), R"(, "seconds": )" + std::to_string(seconds));
  };
  training.log(timed(1, 100) + timed(2, 2) + timed(3, 4));
  EXPECT_EQ(reader.read()->planned_steps, 0);  // the recipe does not say
  for (const char* recipe : {"words", "[]", R"({"max_tokens": 640, "batch_tokens": 0})", R"({"max_tokens": -640})",
                             R"({"max_tokens": "640", "batch_tokens": 64})"}) {
    test::write_bytes(training.folder / "recipe.json", recipe);
    EXPECT_EQ(reader.read()->planned_steps, 0) << recipe;
  }
  test::write_bytes(training.folder / "recipe.json", R"({"config": {}, "max_tokens": 640, "batch_tokens": 64})");
  EXPECT_EQ(reader.read()->planned_steps, 10);
  EXPECT_FALSE(reader.read()->running);
  EXPECT_EQ(reader.read()->seconds_left(), 0);  // nobody trains
  {
    const FolderLock lock(training.folder.path());
    ASSERT_TRUE(lock.held());
    EXPECT_TRUE(reader.read()->running);
    // Seven steps of 106 / 3 seconds; a process that asks does not take the lock from who trains.
    EXPECT_DOUBLE_EQ(reader.read()->seconds_left(), 7 * 106.0 / 3);
    EXPECT_TRUE(FolderLock::is_held(training.folder.path()));
    std::string later;
    for (int step = 4; step <= 23; ++step) later += timed(step, 1);
    training.add(later);
    test::write_bytes(training.folder / "recipe.json", R"({"max_tokens": 6400, "batch_tokens": 64})");
    EXPECT_DOUBLE_EQ(reader.read()->seconds_left(), 77);  // the last twenty count
  }
  EXPECT_FALSE(reader.read()->running);
}

TEST(TrainingReader, GoesOnAfterWhatItRefused) {
  const Training training;
  TrainingReader reader(training.folder.path());
  training.log(step_line(1));
  reader.read();
  training.add(step_line(2) + "words\n");
  for (int n = 0; n < 2; ++n) {
    EXPECT_PRED2(test::says, test::error_of([&] { reader.read(); }), (Parts{"log.jsonl: line 3 is not a step"}));
  }
  training.log(step_line(1) + step_line(2) + step_line(3));
  EXPECT_EQ(numbers_of(*reader.read()), (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(TrainingLogs, RefuseLinesThatAreNoSteps) {
  const Training training;
  for (const char* line :
       {"{\"step\": 0, \"tokens\": 64}", "{\"step\": -1}", "{\"step\": 1.5}", "{\"step\": \"1\"}",
        "{\"step\": 18446744073709551615}", "{\"tokens\": 64}", "[1]", "words", "", "{\"step\": 1"}) {
    training.log(std::string(line) + "\n" + step_line(1));
    EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1 is not a step of a training"})) << line;
  }
  for (const std::string& line :
       {measures_line(1, ""), measures_line(1, R"(, "loss": "2", "grad_norm": 1, "lr": 1)"),
        std::string(R"({"step": 1, "tokens": 0, "loss": 2, "grad_norm": 1, "lr": 0.1})") + "\n",
        std::string(R"({"step": 1, "tokens": 1e300, "loss": 2, "grad_norm": 1, "lr": 0.1})") + "\n"}) {
    training.log(line);
    EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1 lacks a figure, or one is of another kind"}))
        << line;
  }
}

TEST(TrainingLogs, AreBoundedBeforeTheyAreParsed) {
  const Training training;
  training.log(std::string(3 << 20, '['));
  EXPECT_PRED2(test::says, training.refusal(), (Parts{"has no step yet"}));  // a line without its end
  training.log(std::string(1 << 20, '[') + "\n");
  EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1", "deeper than 256 levels"}));
  training.log(std::string(6 << 20, '['));
  EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1 is longer than 4 MiB"}));
  std::string many = R"({"step": 1, "x": [)";
  for (int n = 0; n < 1'000'000; ++n) many += "[],";
  training.log(many + "0]}\n");
  EXPECT_PRED2(test::says, training.refusal(), (Parts{"log.jsonl: line 1", "more lists, objects and values"}));
}

TEST(TrainingMeasures, RefuseWhatDoesNotFitTogether) {
  const Training training;
  training.log(step_line(1));
  std::string heads = "[0";
  for (std::size_t n = 1; n < kMostLoggedHeads; ++n) heads += ",1";
  training.measures(measures_line(1, R"(, "decay_time": [)" + heads + "]]"));
  EXPECT_EQ(read_training(training.folder.path()).heads(), static_cast<int>(kMostLoggedHeads));
  for (const std::string& more :
       {R"(, "decay_time": [)" + heads + "],[1]]", R"(, "decay_time": [)" + heads + ",1]]",
        std::string(R"(, "decay_time": [1, 2])"), std::string(R"(, "decay_time": {"a": [1]})"),
        std::string(R"(, "decay_time": [["1"]])"), std::string(R"(, "rows": -1)"), std::string(R"(, "rows": 1.5)"),
        std::string(R"(, "loss_by_position": 3)"), std::string(R"(, "loss_by_position": {"edges": [0, 1]})"),
        std::string(R"(, "loss_by_position": {"edges": [0, 1], "loss": [1, 2]})"),
        std::string(R"(, "loss_by_position": {"edges": [1, 1], "loss": [1]})"),
        std::string(R"(, "loss_by_position": {"edges": [0, 1.5], "loss": [1]})"),
        std::string(R"(, "loss_by_position": {"edges": [-1, 1], "loss": [1]})")}) {
    training.measures(measures_line(1, more));
    EXPECT_PRED2(test::says, training.refusal(),
                 (Parts{"evaluation.jsonl: line 1 lacks a figure, or one is of another kind"}))
        << more.substr(0, 60);
  }
}

TEST(TrainingStates, RefuseWhatIsDamaged) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    test::write_bytes(folder / "training.json", content);
    return test::error_of([&] { static_cast<void>(read_training_state(folder.path())); });
  };
  EXPECT_EQ(refusal(R"({"step": 3, "tokens": 12, "data": "a", "recipe": "b"})"), "");
  for (const char* content : {"", "[]", R"({"step": 3, "tokens": 12, "data": "a"})",
                              R"({"step": 3.5, "tokens": 12, "data": "a", "recipe": "b"})",
                              R"({"step": -3, "tokens": 12, "data": "a", "recipe": "b"})",
                              R"({"step": 18446744073709551615, "tokens": 12, "data": "a", "recipe": "b"})",
                              R"({"step": 3, "tokens": 12, "data": 5, "recipe": "b"})"}) {
    EXPECT_PRED2(test::says, refusal(content), (Parts{"training.json: is damaged", "an earlier checkpoint"}))
        << content;
  }
  EXPECT_PRED2(test::says, refusal(std::string(1 << 20, '[')), (Parts{"training.json", "deeper than 256 levels"}));
}

}  // namespace
}  // namespace foxscope
