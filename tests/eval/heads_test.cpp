#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/eval/heads/heads_evaluation.h"
#include "backend/eval/heads/heads_file.h"
#include "tests/error_of.h"
#include "tests/eval/eval_test_support.h"
#include "tests/model/model_test_support.h"
#include "tests/temporary_folder.h"

namespace foxscope::test {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TraceInfo small_model() {
  TraceInfo info;
  info.name = "small";
  info.model_type = "test";
  info.config = "{}";
  info.weights_sha256 = "ab";
  info.device = "cpu";
  info.layers = 1;
  info.heads = 2;
  info.length = 4;
  return info;
}

/// A head whose numbers all follow from one.
HeadMeasures measures_of(double number, int head, std::size_t bins = 3) {
  HeadMeasures measures;
  HeadStatistics& statistics = measures.statistics;
  statistics.head = head;
  statistics.mean_log_gate = -number;
  statistics.rate_decay_time = 1 / number;
  statistics.has_attention = true;
  statistics.entropy = 10 * number;
  statistics.distance.d50 = number < 3 ? number : kNone;
  measures.split = DecaySplit();
  measures.split->divergence = number / 2;
  measures.profiles = {{"mass", "1", std::vector<double>(bins, number)},
                       {"logit_content", "nats", std::vector<double>(bins, -number)}};
  measures.classes.resize(kTokenClasses);
  for (int n = 0; n < static_cast<int>(number); ++n) measures.classes[1].add(-number);
  measures.classes[1].add(0.0);
  return measures;
}

constexpr int kWindows = 9;
constexpr double kNumbers[] = {1, 2, 4};
const std::vector<std::int32_t> kWindowDocuments = {0, 0, 1, 2, 2, 3, 4, 4, 5};

/// Three times three windows of two documents; head 1 has twice the numbers of head 0.
EvaluatedHeads nine_windows() {
  HeadsAccumulator accumulator(small_model());
  for (int window = 0; window < kWindows; ++window) {
    const double number = kNumbers[window % 3];
    const std::size_t bins = window % 3 == 2 ? 2 : 3;  // a shorter window
    accumulator.add(measures_of(number, 0, bins));
    accumulator.add(measures_of(2 * number, 1, bins));
    accumulator.end_window(kWindowDocuments[index_of(window)]);
  }
  return accumulator.finish();
}

const HeadArray& array(const std::vector<HeadArray>& arrays, const char* name) {
  const HeadArray* const found = find_array(arrays, name);
  if (found == nullptr) throw std::out_of_range(name);
  return *found;
}

TEST(HeadsAccumulator, MeansHaveErrorsByDocument) {
  const EvaluatedHeads heads = nine_windows();
  const HeadArray& entropy = array(heads.numbers, "entropy");
  EXPECT_EQ(entropy.unit, "nats");
  EXPECT_NEAR(entropy.value[0], 70.0 / 3, 1e-12);
  // Residuals of the documents: 10 + 20 - 2 * 70/3 and 40 - 70/3, which are -50/3 and 50/3; seven and eight windows are
  // left without them.
  EXPECT_NEAR(entropy.error[0], std::sqrt(5.0 / 6 * 3 * (std::pow(50.0 / 3 / 7, 2) + std::pow(50.0 / 3 / 8, 2))),
              1e-12);
  EXPECT_NEAR(entropy.value[1], 2 * entropy.value[0], 1e-12);
  EXPECT_NEAR(array(heads.numbers, "divergence").value[0], 7.0 / 6, 1e-12);
}

TEST(HeadsAccumulator, DecayTimesAreThoseOfTheMeanLogGate) {
  const EvaluatedHeads heads = nine_windows();
  const HeadArray& gate = array(heads.numbers, "mean_log_gate");
  const HeadArray& time = array(heads.numbers, "rate_decay_time");
  EXPECT_NEAR(time.value[0], 3.0 / 7, 1e-12);
  EXPECT_NEAR(time.error[0], gate.error[0] * 9 / 49, 1e-12);
  EXPECT_EQ(&time, heads.numbers.data()) << "files plot the first array";
}

TEST(HeadsAccumulator, WindowsWithoutANumberAreLeftOut) {
  const EvaluatedHeads heads = nine_windows();
  EXPECT_NEAR(array(heads.numbers, "d50").value[0], 1.5, 1e-12);
  EXPECT_TRUE(std::isnan(array(heads.numbers, "d50").error[0])) << "what is left are three documents";
  EXPECT_NEAR(array(heads.numbers, "d50").value[1], 2.0, 1e-12);
}

TEST(HeadsAccumulator, ShorterWindowsHaveNoMassAndNoLogitsBeyondTheirLength) {
  const EvaluatedHeads heads = nine_windows();
  EXPECT_EQ(heads.distances, distance_bins(4));
  const HeadArray& mass = array(heads.by_distance, "mass");
  ASSERT_EQ(mass.value.size(), 6U);
  EXPECT_NEAR(mass.value[1], 7.0 / 3, 1e-12);
  EXPECT_NEAR(mass.value[2], 1.0, 1e-12);
  EXPECT_NEAR(array(heads.by_distance, "logit_content").value[2], -1.5, 1e-12);
}

TEST(HeadsAccumulator, GatesByClassAreThoseOfAllPositions) {
  const EvaluatedHeads heads = nine_windows();
  ASSERT_EQ(heads.class_tokens.size(), kTokenClasses);
  // Windows give n gates with log f = -n, and one that is open.
  EXPECT_EQ(heads.class_tokens[1], 30);
  EXPECT_EQ(heads.class_tokens[2], 0);
  const HeadArray& mean = array(heads.by_class, "mean_log_gate");
  EXPECT_NEAR(mean.value[1], -2.1, 1e-12);
  // Residuals sum - mean * count of the documents: -5 + 2.1 * 5 and -16 + 2.1 * 5.
  EXPECT_NEAR(mean.error[1], std::sqrt(5.0 / 6 * 6) * 5.5 / 25, 1e-12);
  EXPECT_NEAR(array(heads.by_class, "share_below_half").value[1], 0.7, 1e-12);
  EXPECT_TRUE(std::isnan(mean.value[2]));
}

TEST(HeadsAccumulator, AllWindowsHaveClassesOrNone) {
  HeadsAccumulator accumulator(small_model());
  HeadMeasures without = measures_of(1, 0);
  without.classes.clear();
  for (int head = 0; head < 2; ++head) accumulator.add(measures_of(1, head));
  accumulator.end_window(0);
  EXPECT_PRED2(says, error_of([&] { accumulator.add(without); }),
               (std::vector<std::string>{"classes", "window 1 has none", "before it have some"}));
  HeadsAccumulator other(small_model());
  other.add(without);
  EXPECT_PRED2(says, error_of([&] { other.add(measures_of(1, 1)); }), (std::vector<std::string>{"window 0 has some"}));
}

TEST(HeadsAccumulator, AGateThatIsNotANumberIsNotLeftOut) {
  HeadsAccumulator accumulator(small_model());
  for (int window = 0; window < 3; ++window) {
    for (int head = 0; head < 2; ++head) {
      HeadMeasures measures = measures_of(2, head);
      if (window == 1) measures.classes[1].add(kNone);
      accumulator.add(measures);
    }
    accumulator.end_window(window);
  }
  const EvaluatedHeads heads = accumulator.finish();
  for (const HeadArray& one : heads.by_class) EXPECT_TRUE(std::isnan(one.value[1])) << one.name;
}

/// As it arrives at another process.
HeadsAccumulator travelled(const TraceInfo& info, const HeadsAccumulator& heads) {
  const std::vector<std::uint8_t> packed = heads.packed();
  return HeadsAccumulator::unpacked(info, std::as_bytes(std::span(packed)));
}

/// Equal to the last bit, and NaN where the other is.
void expect_same(const std::vector<HeadArray>& a, const std::vector<HeadArray>& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) {
    EXPECT_EQ(a[n].name, b[n].name);
    EXPECT_EQ(a[n].unit, b[n].unit);
    EXPECT_TRUE(std::ranges::equal(a[n].value, b[n].value, same)) << a[n].name;
    EXPECT_TRUE(std::ranges::equal(a[n].error, b[n].error, same)) << a[n].name;
  }
}

TEST(HeadsAccumulator, WindowsThatTravelAreThoseThatStayed) {
  HeadsAccumulator all(small_model());
  for (int window = 0; window < kWindows; ++window) {
    HeadsAccumulator one(small_model());
    const double number = kNumbers[window % 3];
    const std::size_t bins = window % 3 == 2 ? 2 : 3;
    one.add(measures_of(number, 0, bins));
    one.add(measures_of(2 * number, 1, bins));
    one.end_window(kWindowDocuments[index_of(window)]);
    all.take(travelled(small_model(), one));
  }
  const EvaluatedHeads found = all.finish();
  const EvaluatedHeads expected = nine_windows();
  expect_same(found.numbers, expected.numbers);
  expect_same(found.by_distance, expected.by_distance);
  expect_same(found.by_class, expected.by_class);
  EXPECT_EQ(found.class_tokens, expected.class_tokens);
}

TEST(HeadsAccumulator, WindowsOfOtherArraysAreNotTaken) {
  const auto window = [](bool classes, bool split) {
    HeadsAccumulator one(small_model());
    for (int head = 0; head < 2; ++head) {
      HeadMeasures measures = measures_of(1, head);
      if (!classes) measures.classes.clear();
      if (!split) measures.split.reset();
      one.add(measures);
    }
    one.end_window(0);
    return one;
  };
  for (const auto& [classes, split] : {std::pair{false, true}, std::pair{true, false}}) {
    HeadsAccumulator all = window(true, true);
    EXPECT_PRED2(says, error_of([&] { all.take(window(classes, split)); }),
                 (std::vector<std::string>{"window 1 has other arrays"}));
  }
}

/// Layer 0 has one head that decays by channel and no split, layer 1 two heads of attention.
EvaluatedHeads two_kinds() {
  TraceInfo info = small_model();
  info.set_mixers({{Mixer::gated_linear_attention, Decay::channel, 1, 1, 1, 1, 3, 3},
                   {Mixer::attention, Decay::head, 2, 2, 2, 2, 5, 5}});
  HeadsAccumulator all(info);
  for (int window = 0; window < 2; ++window) {
    HeadsAccumulator accumulator(info);
    HeadMeasures linear = measures_of(2, 0);
    linear.split.reset();
    linear.profiles.pop_back();
    linear.statistics.channel_log_decay = {-1.0 - window, -0.5, -0.25};
    accumulator.add(linear);
    for (int head = 0; head < 2; ++head) {
      HeadMeasures attention = measures_of(1, head);
      attention.statistics.layer = 1;
      accumulator.add(attention);
    }
    accumulator.end_window(window);
    all.take(travelled(info, accumulator));
  }
  return all.finish();
}

TEST(HeadsAccumulator, WhatAHeadOfAnotherKindDoesNotHaveIsNotANumber) {
  const EvaluatedHeads heads = two_kinds();
  // The head that is not there is head 1 of layer 0.
  const auto is = [](const HeadArray* array, const std::vector<double>& wanted) {
    ASSERT_NE(array, nullptr);
    ASSERT_EQ(array->value.size(), wanted.size());
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      EXPECT_TRUE(array->value[n] == wanted[n] || (std::isnan(array->value[n]) && std::isnan(wanted[n])))
          << array->name << " " << n << ": " << array->value[n];
    }
  };
  is(find_array(heads.numbers, "entropy"), {20, kNone, 10, 10});
  is(find_array(heads.numbers, "divergence"), {kNone, kNone, 0.5, 0.5});
  is(find_array(heads.numbers, "channel_decay_time_max"), {4, kNone, kNone, kNone});
  is(find_array(heads.by_distance, "mass"), {2, 2, 2, kNone, kNone, kNone, 1, 1, 1, 1, 1, 1});
  is(find_array(heads.by_channel, "mean_log_decay"),
     {-1.5, -0.5, -0.25, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone});
}

TEST(HeadsAccumulator, RefusesAHeadThatTheModelDoesNotHave) {
  HeadsAccumulator accumulator(small_model());
  EXPECT_PRED2(says, error_of([&] { accumulator.add(measures_of(1, 2)); }),
               (std::vector<std::string>{"[HeadsAccumulator] head: expected one of 1 layers of 2 heads, got 0:2"}));
}

TEST(HeadsAccumulator, OneWindowHasNoErrors) {
  HeadsAccumulator accumulator(small_model());
  for (int head = 0; head < 2; ++head) accumulator.add(measures_of(1, head));
  accumulator.end_window(0);
  const EvaluatedHeads heads = accumulator.finish();
  EXPECT_EQ(array(heads.numbers, "entropy").value[0], 10);
  EXPECT_TRUE(std::isnan(array(heads.numbers, "entropy").error[0]));
}

class HeadsFile : public testing::Test {
 protected:
  [[nodiscard]] std::string error_of_opening() const {
    return error_of([this] { HeadsEvaluation::open(folder_ / "heads.h5"); });
  }

  const test::TemporaryFolder folder_;
};

void expect_equal(const std::vector<HeadArray>& actual, const std::vector<HeadArray>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const HeadArray& one : expected) {
    const HeadArray& other = array(actual, one.name.c_str());
    EXPECT_EQ(other.unit, one.unit);
    ASSERT_EQ(other.value.size(), one.value.size());
    for (std::size_t n = 0; n < one.value.size(); ++n) {
      EXPECT_TRUE(other.value[n] == one.value[n] || (std::isnan(other.value[n]) && std::isnan(one.value[n])));
      EXPECT_TRUE(other.error[n] == one.error[n] || (std::isnan(other.error[n]) && std::isnan(one.error[n])));
    }
  }
}

TEST_F(HeadsFile, HoldsWhatWasWritten) {
  HeadsEvaluation evaluation;
  evaluation.corpus.source = "books.jsonl";
  evaluation.corpus.documents = {{"a", "11"}, {"b", "22"}, {"c", "33"}, {"d", "44"}, {"e", "55"}, {"f", "66"}};
  evaluation.corpus.seed = 7;
  evaluation.models = {nine_windows(), nine_windows()};
  auto windows = std::make_shared<EvaluatedWindows>();
  windows->document = kWindowDocuments;
  for (int n = 0; n < kWindows; ++n) {
    windows->tokens.push_back(n % 3 == 2 ? 2 : 4);
    windows->token_start.push_back(10 * n);
    windows->byte_start.push_back(40 * n);
    windows->byte_end.push_back(40 * n + 16);
  }
  for (EvaluatedHeads& model : evaluation.models) model.windows = windows;
  evaluation.models[1].info.name = "another";
  evaluation.models[1].by_class.clear();
  evaluation.models[1].class_tokens.clear();
  write_heads_file(folder_ / "heads.h5", evaluation, {"foxscope eval heads", ""}, Overwrite::refuse);

  const HeadsEvaluation read = HeadsEvaluation::open(folder_ / "heads.h5");
  EXPECT_EQ(read.content, HeadsContent::evaluation);
  EXPECT_EQ(read.command_line, "foxscope eval heads");
  EXPECT_EQ(read.corpus.source, "books.jsonl");
  EXPECT_EQ(read.corpus.seed, 7U);
  ASSERT_EQ(read.corpus.documents.size(), 6U);
  EXPECT_EQ(read.corpus.documents[1].name, "b");
  ASSERT_EQ(read.models.size(), 2U);
  for (std::size_t n = 0; n < 2; ++n) {
    const EvaluatedHeads& model = read.models[n];
    const EvaluatedHeads& expected = evaluation.models[n];
    EXPECT_EQ(model.info.name, expected.info.name);
    EXPECT_EQ(model.info.weights_sha256, "ab");
    EXPECT_EQ(model.info.length, 4);
    EXPECT_TRUE(forgets(model.info));
    EXPECT_EQ(model.windows->document, windows->document);
    EXPECT_EQ(model.windows->byte_end, windows->byte_end);
    EXPECT_EQ(model.distances, expected.distances);
    EXPECT_EQ(model.class_tokens, expected.class_tokens);
    expect_equal(model.numbers, expected.numbers);
    expect_equal(model.by_distance, expected.by_distance);
    expect_equal(model.by_class, expected.by_class);
    EXPECT_FALSE(std::isnan(array(model.numbers, "entropy").error[0]));
  }
}

// Older programs wrote errors of two documents, which were far too small.
TEST_F(HeadsFile, ErrorsOfTooFewDocumentsAreNotBelieved) {
  HeadsEvaluation evaluation;
  evaluation.corpus.documents = {{"a", "11"}, {"b", "22"}};
  evaluation.models = {nine_windows()};
  auto windows = std::make_shared<EvaluatedWindows>();
  windows->document = {0, 0, 0, 0, 0, 0, 0, 0, 1};
  windows->tokens.assign(kWindows, 4);
  windows->token_start.assign(kWindows, 0);
  windows->byte_start.assign(kWindows, 0);
  windows->byte_end.assign(kWindows, 16);
  evaluation.models[0].windows = windows;
  write_heads_file(folder_ / "heads.h5", evaluation, {}, Overwrite::refuse);
  const EvaluatedHeads read = HeadsEvaluation::open(folder_ / "heads.h5").models[0];
  EXPECT_EQ(array(read.numbers, "entropy").value, array(evaluation.models[0].numbers, "entropy").value);
  for (const auto* arrays : {&read.numbers, &read.by_distance, &read.by_class}) {
    for (const HeadArray& one : *arrays) {
      for (const double error : one.error) EXPECT_TRUE(std::isnan(error)) << one.name;
    }
  }
}

TEST_F(HeadsFile, HoldsSpectraAndHeadsOfSeveralKinds) {
  HeadsEvaluation evaluation;
  evaluation.content = HeadsContent::run;
  evaluation.models = {two_kinds()};
  EvaluatedHeads& model = evaluation.models[0];
  for (auto* arrays : {&model.numbers, &model.by_distance, &model.by_channel}) {
    for (HeadArray& array : *arrays) std::ranges::fill(array.error, kNone);  // a run has none
  }
  write_heads_file(folder_ / "heads.h5", evaluation, {}, Overwrite::refuse);
  const HeadsEvaluation read = HeadsEvaluation::open(folder_ / "heads.h5");
  expect_equal(read.models[0].numbers, evaluation.models[0].numbers);
  expect_equal(read.models[0].by_distance, evaluation.models[0].by_distance);
  expect_equal(read.models[0].by_channel, evaluation.models[0].by_channel);
}

TEST_F(HeadsFile, OfARunHasNoErrors) {
  HeadsAccumulator accumulator(small_model());
  for (int head = 0; head < 2; ++head) accumulator.add(measures_of(1, head));
  accumulator.end_window(0);
  HeadsEvaluation evaluation;
  evaluation.content = HeadsContent::run;
  evaluation.models = {accumulator.finish()};
  write_heads_file(folder_ / "heads.h5", evaluation, {}, Overwrite::refuse);
  const HeadsEvaluation read = HeadsEvaluation::open(folder_ / "heads.h5");
  EXPECT_EQ(read.content, HeadsContent::run);
  EXPECT_EQ(read.models[0].windows, nullptr);
  expect_equal(read.models[0].numbers, evaluation.models[0].numbers);
}

TEST_F(HeadsFile, ErrorsNameTheFileAndTheRemedy) {
  EXPECT_NE(error_of_opening().find("heads.h5"), std::string::npos);
  HeadsEvaluation evaluation;
  evaluation.models = {nine_windows()};
  evaluation.models[0].distances.pop_back();
  write_heads_file(folder_ / "heads.h5", evaluation, {}, Overwrite::refuse);
  EXPECT_NE(error_of_opening().find("by_distance/distance"), std::string::npos) << error_of_opening();
  evaluation.models = {nine_windows()};
  evaluation.models[0].info.layers = 0;
  EXPECT_THROW(write_heads_file(folder_ / "heads.h5", evaluation, {}, Overwrite::refuse), Error) << "the file exists";
}

}  // namespace
}  // namespace foxscope::test
