// Two models' losses on one text against the definition written out.
#include "backend/eval/loss/loss_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

struct TwoLosses {
  std::vector<float> loss;
  std::vector<float> minus;

  explicit TwoLosses(std::size_t tokens) {
    std::mt19937 random(7);
    std::gamma_distribution<float> draw(2, 1.5F);
    for (std::size_t p = 0; p < tokens; ++p) {
      minus.push_back(draw(random));
      loss.push_back(draw(random));
    }
  }
  [[nodiscard]] double mean(const std::vector<float>& of, const Range& positions) const {
    double sum = 0;
    for (std::int64_t p = positions.begin; p < positions.end; ++p) sum += static_cast<double>(of[index_of(p)]);
    return sum / static_cast<double>(positions.size());
  }
};

TEST(LossComparison, OctavesShareOutThePositions) {
  const TwoLosses losses(1500);
  const LossComparison whole = compare_losses(losses.loss, losses.minus, {0, 1500});
  const std::vector<Range> expected{{0, 256}, {256, 512}, {512, 1024}, {1024, 1500}};
  ASSERT_EQ(whole.octaves.size(), expected.size());
  double sum = 0;
  for (std::size_t n = 0; n < expected.size(); ++n) {
    const LossOctave& octave = whole.octaves[n];
    EXPECT_EQ(octave.positions, expected[n]);
    EXPECT_NEAR(octave.loss, losses.mean(losses.loss, expected[n]), 1e-12);
    EXPECT_NEAR(octave.minus, losses.mean(losses.minus, expected[n]), 1e-12);
    EXPECT_NEAR(octave.difference.value, octave.loss - octave.minus, 1e-12);
    EXPECT_GT(octave.difference.error, 0);
    sum += octave.difference.value * static_cast<double>(octave.positions.size());
  }
  EXPECT_NEAR(sum / 1500, whole.difference.mean.value, 1e-12);
  EXPECT_NEAR(whole.loss - whole.minus, whole.difference.mean.value, 1e-12);
}

TEST(LossComparison, ARangeCountsItsOwnPositionsAlone) {
  const TwoLosses losses(1500);
  const Range positions{300, 700};
  const LossComparison part = compare_losses(losses.loss, losses.minus, positions, 3);
  EXPECT_EQ(part.positions, positions);
  EXPECT_NEAR(part.loss, losses.mean(losses.loss, positions), 1e-12);
  EXPECT_EQ(part.difference.tokens, 400);
  ASSERT_EQ(part.octaves.size(), 2U);
  EXPECT_EQ(part.octaves[0].positions, (Range{300, 512}));
  EXPECT_EQ(part.octaves[1].positions, (Range{512, 700}));
  // Below 256 positions an error cannot be known.
  EXPECT_TRUE(std::isnan(part.octaves[0].difference.error));

  // Positions count from the text's start: the largest difference on either side, found by hand.
  const auto differenceAt = [&](std::int64_t p) {
    return static_cast<double>(losses.loss[index_of(p)]) - static_cast<double>(losses.minus[index_of(p)]);
  };
  std::int64_t best = 300;
  std::int64_t worst = 300;
  for (std::int64_t p = 300; p < 700; ++p) {
    if (differenceAt(p) < differenceAt(best)) best = p;
    if (differenceAt(p) > differenceAt(worst)) worst = p;
  }
  ASSERT_EQ(part.difference.helped.size(), 3U);
  ASSERT_EQ(part.difference.hurt.size(), 3U);
  EXPECT_EQ(part.difference.helped.front(), (TokenChange{best, differenceAt(best)}));
  EXPECT_EQ(part.difference.hurt.front(), (TokenChange{worst, differenceAt(worst)}));
}

TEST(LossComparison, WrongLossesAndPositionsAreRefused) {
  const TwoLosses losses(20);
  EXPECT_THROW(compare_losses(losses.loss, std::vector<float>(19), {0, 19}), ShapeError);
  EXPECT_THROW(compare_losses({}, {}, {0, 0}), ShapeError);
  TwoLosses damaged(20);
  damaged.minus[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_unknown_loss(damaged.loss), std::nullopt);
  EXPECT_EQ(first_unknown_loss(damaged.minus), std::optional<std::int64_t>(7));
  EXPECT_THROW(compare_losses(damaged.loss, damaged.minus, {0, 20}), Error);
  for (const Range& wrong : {Range{-1, 5}, Range{5, 5}, Range{6, 5}, Range{0, 21}}) {
    EXPECT_THROW(compare_losses(losses.loss, losses.minus, wrong), UsageError) << wrong.begin << ":" << wrong.end;
  }
}

}  // namespace
}  // namespace foxscope
