#include "backend/map/statistics/head_saliency.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/trace/recorder.h"

namespace foxscope::test {
namespace {

TraceInfo two_heads(std::int64_t length) {
  TraceInfo info;
  info.name = "small";
  info.layers = 1;
  info.heads = 2;
  info.key_heads = 2;
  info.head_dim = 4;
  info.length = length;
  return info;
}

/// A run whose head 1 has these gradients and, where they are given, these log f, and head 0 others.
std::shared_ptr<const Trace> run_with(const std::vector<float>& gradient, const std::vector<double>& log_gates = {}) {
  TraceInfo info = two_heads(static_cast<std::int64_t>(gradient.size()));
  info.forgetting = {true};
  KeepSet keep = {Keep::saliency};
  if (!log_gates.empty()) keep.insert(Keep::gates);
  Recorder recorder(info, keep, nullptr);
  if (!log_gates.empty()) {
    const std::span<double> c = recorder.cumulative_log_gate(0);
    std::ranges::fill(c, 0.0);
    std::partial_sum(log_gates.begin(), log_gates.end(), c.begin() + info.length);
  }
  std::ranges::fill(recorder.log_forget_gradient(), 7.0F);
  std::ranges::copy(gradient, recorder.log_forget_gradient().subspan(gradient.size()).begin());
  return recorder.finish(nullptr, std::make_shared<TokenTable>());
}

TEST(HeadSaliency, IsSumsOfTheGradientTimesLogFAndTheLargest) {
  const auto run = run_with({0.0F, -0.5F, 0.25F, -3.0F, 0.5F, 0.0F}, {-4, -0.5, -1, 0, -0.25, -8});
  const auto saliency = head_saliency({run, 0, 1}, 3);
  ASSERT_TRUE(saliency);
  EXPECT_DOUBLE_EQ(saliency->scale, 0.25 - 0.25 - 0.125);
  EXPECT_DOUBLE_EQ(saliency->absolute, 0.25 + 0.25 + 0.125);
  EXPECT_DOUBLE_EQ(saliency->per_nat, 4.25 / 6);
  EXPECT_EQ(ordering_number(*run), SaliencyNumber::absolute);
  ASSERT_EQ(saliency->events.size(), 3U);
  // Of two as large the earlier comes first.
  const std::int64_t positions[] = {3, 1, 4};
  const double values[] = {-3, -0.5, 0.5};
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(saliency->events[n].position, positions[n]);
    EXPECT_EQ(saliency->events[n].saliency, values[n]);
  }
  EXPECT_EQ(head_saliency({run, 0, 1}, 10)->events.size(), 4U) << "positions on which nothing hangs are none";
  EXPECT_TRUE(head_saliency({run, 0, 1}, 0)->events.empty());
  EXPECT_DOUBLE_EQ(head_saliency({run, 0, 0}, 0)->per_nat, 7);
  EXPECT_DOUBLE_EQ(head_saliency({run, 0, 0}, 0)->absolute, 0) << "its f is 1";
}

TEST(HeadSaliency, WithoutGatesKeptOnlyTheGradientIsKnown) {
  const auto run = run_with({0.0F, -0.5F, 0.25F});
  const auto saliency = head_saliency({run, 0, 1}, 3);
  EXPECT_TRUE(std::isnan(saliency->scale));
  EXPECT_TRUE(std::isnan(saliency->absolute));
  EXPECT_DOUBLE_EQ(saliency->per_nat, 0.25);
  EXPECT_EQ(saliency->events.size(), 2U);
  EXPECT_EQ(ordering_number(*run), SaliencyNumber::per_nat);
}

TEST(HeadSaliency, OfAModelWithoutGatesLogFIsZero) {
  Recorder recorder(two_heads(2), {Keep::saliency}, nullptr);
  std::ranges::fill(recorder.log_forget_gradient(), 7.0F);
  const auto run = recorder.finish(nullptr, std::make_shared<TokenTable>());
  const auto saliency = head_saliency({run, 0, 1}, 3);
  EXPECT_EQ(saliency->scale, 0);
  EXPECT_EQ(saliency->absolute, 0);
  EXPECT_EQ(saliency->per_nat, 7);
  EXPECT_EQ(ordering_number(*run), SaliencyNumber::per_nat);
}

TEST(HeadSaliency, IsNotANumberWhereAGradientIsNone) {
  const auto saliency = head_saliency({run_with({1.0F, std::nanf(""), 2.0F}, {-1, -1, -1}), 0, 1}, 3);
  ASSERT_TRUE(saliency);
  EXPECT_TRUE(std::isnan(saliency->scale));
  EXPECT_TRUE(std::isnan(saliency->absolute));
  EXPECT_TRUE(std::isnan(saliency->per_nat));
  EXPECT_TRUE(saliency->events.empty());
}

TEST(HeadSaliency, IsAbsentWhereItWasNotKept) {
  Recorder recorder(two_heads(3), {Keep::loss}, nullptr);
  const auto run = recorder.finish(nullptr, std::make_shared<TokenTable>());
  EXPECT_FALSE(head_saliency({run, 0, 1}, 3));
  EXPECT_THROW(static_cast<void>(head_saliency({run, 0, 2}, 3)), UsageError);
}

// Any dS whose rows sum to 0 will do: both gradients are sums over its pairs.
TEST(KeyLogitGradient, IsTheSumOfAColumn) {
  constexpr std::size_t kLength = 40;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> pairs(kLength, std::vector<double>(kLength));
  for (std::size_t i = 0; i < kLength; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < i; ++j) sum += pairs[i][j] = normal(random);
    pairs[i][i] = -sum;
  }
  std::vector<float> saliency(kLength);
  std::vector<double> columns(kLength);
  for (std::size_t t = 0; t < kLength; ++t) {
    double crossing = 0;
    for (std::size_t i = t; i < kLength; ++i) {
      for (std::size_t j = 0; j < t; ++j) crossing += pairs[i][j];
      columns[t] += pairs[i][t];
    }
    saliency[t] = static_cast<float>(crossing);
  }
  const std::vector<float> gradient = key_logit_gradient(saliency);
  ASSERT_EQ(gradient.size(), kLength);
  for (std::size_t t = 0; t < kLength; ++t) EXPECT_NEAR(gradient[t], columns[t], 1e-5) << t;
  EXPECT_TRUE(key_logit_gradient({}).empty());
}

TEST(LargestEvents, AreTheLargestOfAnyGradient) {
  const float gradient[] = {1, -4, 0, 4, 2};
  const auto events = largest_events(gradient, 3);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].position, 1);
  EXPECT_EQ(events[0].saliency, -4);
  EXPECT_EQ(events[1].position, 3);
  EXPECT_EQ(events[2].position, 4);
  EXPECT_TRUE(largest_events({}, 3).empty());
}

TEST(SaliencyTarget, IsReadFromWhatARunSaysOfIt) {
  TraceInfo info = two_heads(64);
  const auto words_of = [&](const char* target) {
    info.saliency_target = target;
    return saliency_target_words(info);
  };
  EXPECT_EQ(words_of("mean of loss[0:64]"), "the mean loss");
  EXPECT_EQ(words_of("mean of loss[40:50]"), "the mean loss of positions 40 to 49");
  EXPECT_EQ(saliency_range(info), (Range{40, 50}));
  EXPECT_EQ(words_of("mean of loss[40:41]"), "the loss of position 40");
  // Of another program, or of a file that is damaged: told as it is.
  for (const char* const other :
       {"logit of the answer", "mean of loss[40:50", "mean of loss[50:40]", "mean of loss[a:b]", "mean of loss[0:65]",
        "mean of loss[-1:3]", "mean of loss[4]", ""}) {
    EXPECT_EQ(words_of(other), other);
    EXPECT_FALSE(saliency_range(info)) << other;
  }
}

TEST(Saliency, TellsWhatOnePercentOfAGateIsWorth) { EXPECT_DOUBLE_EQ(change_by_one_percent(-3e-4), -3e-6); }

}  // namespace
}  // namespace foxscope::test
