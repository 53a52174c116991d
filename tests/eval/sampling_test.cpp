// How the next token is chosen.
#include "backend/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// What stands at a place, given.
struct Given final : NextToken {
  explicit Given(std::vector<float> of) : numbers(std::move(of)) {}
  [[nodiscard]] std::span<const float> log_probabilities() const override { return numbers; }
  [[nodiscard]] std::int32_t likeliest() const override {
    return static_cast<std::int32_t>(std::ranges::max_element(numbers) - numbers.begin());
  }
  std::vector<float> numbers;
};

Given log_softmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  std::vector<float> result;
  for (const double logit : logits) result.push_back(static_cast<float>(logit - std::log(sum)));
  return Given(std::move(result));
}

TEST(Sampling, ZeroTakesTheLikeliestAndTheFirstOfEquals) {
  Sampler sampler({0.0, 3});
  EXPECT_EQ(sampler.choose(log_softmax({0, 2, 1})), 1);
  EXPECT_EQ(sampler.choose(log_softmax({2, 0, 2})), 0);
}

TEST(Sampling, DrawsFollowTheSoftmaxAtEveryTemperature) {
  const std::vector<double> logits = {1.0, 0.0, -1.0, 2.0, 0.5, -0.5, 1.5, 0.2};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> expected;
    double total = 0;
    for (const double logit : logits) total += expected.emplace_back(std::exp(logit / temperature));
    constexpr int kDraws = 20000;
    std::vector<int> count(logits.size());
    Sampler sampler({temperature, 17});
    for (int n = 0; n < kDraws; ++n) ++count[index_of(sampler.choose(log_softmax(logits)))];
    double chi_square = 0;
    for (std::size_t n = 0; n < logits.size(); ++n) {
      const double wanted = kDraws * expected[n] / total;
      chi_square += (count[n] - wanted) * (count[n] - wanted) / wanted;
    }
    // 7 degrees of freedom: 24.3 is passed once in a thousand.
    EXPECT_LT(chi_square, 24.3) << temperature;
  }
}

TEST(Sampling, DrawsComeFromTheFewestTokensThatReachTopP) {
  // p = 0.5, 0.25, 0.125, 0.125: of the equals the lower id comes first.
  const Given given({std::log(0.125F), std::log(0.5F), std::log(0.125F), std::log(0.25F)});
  const auto drawn = [&](double top_p) {
    Sampler sampler({1.0, 11, top_p});
    std::vector<int> count(given.numbers.size());
    for (int n = 0; n < 4000; ++n) ++count[index_of(sampler.choose(given))];
    return count;
  };
  EXPECT_EQ(drawn(0.4), (std::vector<int>{0, 4000, 0, 0}));
  const std::vector<int> two = drawn(0.6);
  EXPECT_EQ(two[0] + two[2], 0);
  EXPECT_NEAR(two[3], 4000 / 3.0, 5 * 30) << "shares of those that are left stay";
  const std::vector<int> three = drawn(0.8);
  EXPECT_GT(three[0], 0);
  EXPECT_EQ(three[2], 0);
  EXPECT_GT(drawn(1)[2], 0);
  EXPECT_THROW(Sampler({1.0, 1, 0.0}), UsageError);
  EXPECT_THROW(Sampler({1.0, 1, 1.5}), UsageError);
}

TEST(Sampling, SeedsDecide) {
  const Given flat = log_softmax(std::vector<double>(100, 0.0));
  const auto draws = [&flat](std::uint64_t seed) {
    Sampler sampler({1.0, seed});
    std::vector<std::int32_t> ids;
    for (int n = 0; n < 20; ++n) ids.push_back(sampler.choose(flat));
    return ids;
  };
  EXPECT_EQ(draws(5), draws(5));
  EXPECT_NE(draws(5), draws(6));
}

TEST(Sampling, WhatIsImpossibleIsNeverDrawn) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Sampler sampler({1.0, 1});
  for (int n = 0; n < 1000; ++n) EXPECT_EQ(sampler.choose(Given({kNever, 0.0F, kNever})), 1);
  Sampler cold({1e-300, 1});
  EXPECT_EQ(cold.choose(log_softmax({0, 1, 0.5})), 1);
}

TEST(Sampling, TemperaturesThatAreNoneAreRefused) {
  for (const double temperature :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_PRED2(test::says, test::error_of([&] {
                   const Sampler sampler({temperature, 0});
                 }),
                 (test::Parts{"--temperature", "use 0"}));
  }
}

}  // namespace
}  // namespace foxscope
