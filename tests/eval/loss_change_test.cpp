// What a change did to losses: mean, error and tokens against the definitions written out.
#include "backend/eval/loss/loss_change.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Losses whose changes follow one another, as those of a text do.
struct Losses {
  std::vector<float> changed;
  std::vector<float> unchanged;

  explicit Losses(std::size_t tokens, double remembered = 0.6) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    std::normal_distribution<double> noise(0.05, 1);
    double change = 0;
    for (std::size_t p = 0; p < tokens; ++p) {
      change = remembered * change + noise(random);
      unchanged.push_back(static_cast<float>(3 + noise(random)));
      changed.push_back(unchanged.back() + static_cast<float>(change));
    }
  }
  [[nodiscard]] std::vector<double> differences() const {
    std::vector<double> result;
    for (std::size_t p = 0; p < changed.size(); ++p) {
      result.push_back(static_cast<double>(changed[p]) - static_cast<double>(unchanged[p]));
    }
    return result;
  }
};

TEST(LossChange, BlocksAreFewAndNotShort) {
  const auto blocks = [](std::int64_t tokens) {
    const ErrorGroups over = error_blocks(tokens);
    return std::pair(over.count, over.tokens);
  };
  EXPECT_EQ(blocks(1), (std::pair<std::int64_t, std::int64_t>(1, 1)));
  EXPECT_EQ(blocks(100), (std::pair<std::int64_t, std::int64_t>(3, 33)));
  EXPECT_EQ(blocks(256), (std::pair<std::int64_t, std::int64_t>(8, 32)));
  EXPECT_EQ(blocks(2048), (std::pair<std::int64_t, std::int64_t>(64, 32)));
  EXPECT_EQ(blocks(2049), (std::pair<std::int64_t, std::int64_t>(64, 32)));
  EXPECT_EQ(blocks(65536), (std::pair<std::int64_t, std::int64_t>(64, 1024)));
  EXPECT_FALSE(error_blocks(255).suffice());
  EXPECT_TRUE(error_blocks(256).suffice());
}

// Each block left out in turn, with the blocks' ends written out.
TEST(LossChange, MeanAndErrorAreThoseOfBlocks) {
  for (const std::size_t tokens : {256U, 300U, 2048U, 5000U}) {
    const Losses losses(tokens);
    const std::vector<double> d = losses.differences();
    const auto count = std::min<std::size_t>(64, tokens / 32);
    const double mean = std::accumulate(d.begin(), d.end(), 0.0) / static_cast<double>(tokens);
    double squares = 0;
    for (std::size_t block = 0; block < count; ++block) {
      double sum = 0;
      double left = 0;
      for (std::size_t p = 0; p < tokens; ++p) {
        if (p >= block * tokens / count && p < (block + 1) * tokens / count) continue;
        sum += d[p];
        ++left;
      }
      squares += std::pow(sum / left - mean, 2);
    }
    const auto blocks = static_cast<double>(count);
    const LossChange change = loss_change(losses.changed, losses.unchanged);
    EXPECT_NEAR(change.mean.value, mean, 1e-12) << tokens;
    EXPECT_NEAR(change.mean.error, std::sqrt((blocks - 1) / blocks * squares), 1e-12) << tokens;
    EXPECT_EQ(change.tokens, static_cast<std::int64_t>(tokens));
    EXPECT_EQ(change.mean.over, error_blocks(change.tokens));
    EXPECT_NEAR(change.perplexity_factor(), std::exp(mean), 1e-12);
  }
}

// Of x_p = r x_(p-1) + noise of spread 1, the mean over L has the spread 1 / ((1 - r) sqrt(L)): an error that took
// tokens for independent would be sqrt((1 - r) / (1 + r)) of that, here half.
TEST(LossChange, ErrorsKnowThatNeighboursAreAlike) {
  double squares = 0;
  constexpr int kSamples = 40;
  for (std::size_t n = 0; n < kSamples; ++n) {
    const Losses losses(4096 + n);
    const double error = loss_change(losses.changed, losses.unchanged).mean.error;
    squares += error * error / kSamples;
  }
  EXPECT_NEAR(std::sqrt(squares) * 0.4 * std::sqrt(4096), 1, 0.1);
}

TEST(LossChange, FewBlocksHaveNoError) {
  for (const std::size_t tokens : {1U, 32U, 33U, 64U, 255U}) {
    const Losses losses(tokens);
    const LossChange change = loss_change(losses.changed, losses.unchanged);
    EXPECT_TRUE(std::isfinite(change.mean.value));
    EXPECT_TRUE(std::isnan(change.mean.error)) << tokens;
    EXPECT_FALSE(beyond_chance(change.mean));
  }
}

TEST(LossChange, TokensComeByTheSizeOfTheirChange) {
  const Losses losses(500);
  const std::vector<double> d = losses.differences();
  std::vector<std::int64_t> order(d.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return d[index_of(a)] > d[index_of(b)]; });
  const LossChange change = loss_change(losses.changed, losses.unchanged, 7);
  ASSERT_EQ(change.hurt.size(), 7U);
  ASSERT_EQ(change.helped.size(), 7U);
  for (std::size_t n = 0; n < 7; ++n) {
    EXPECT_EQ(change.hurt[n].position, order[n]);
    EXPECT_EQ(change.hurt[n].change, d[index_of(order[n])]);
    EXPECT_EQ(change.helped[n].position, order[order.size() - 1 - n]);
  }
}

TEST(LossChange, OnlyWhatChangedIsHurtOrHelped) {
  const std::vector<float> unchanged = {1, 2, 3, 4};
  const std::vector<float> changed = {1, 2.5, 3, 3};
  const LossChange change = loss_change(changed, unchanged);
  EXPECT_EQ(change.hurt, (std::vector<TokenChange>{{1, 0.5}}));
  EXPECT_EQ(change.helped, (std::vector<TokenChange>{{3, -1}}));
  const LossChange none = loss_change(unchanged, unchanged);
  EXPECT_EQ(none.mean.value, 0);
  EXPECT_TRUE(none.hurt.empty());
  EXPECT_TRUE(none.helped.empty());
}

TEST(LossChange, RefusesLossesThatDoNotFit) {
  const std::vector<float> two = {1, 2};
  const std::vector<float> three = {1, 2, 3};
  EXPECT_THROW(loss_change(two, three), ShapeError);
  EXPECT_THROW(loss_change({}, {}), ShapeError);
}

}  // namespace
}  // namespace foxscope
