// Curves of one text: values and errors against loss_change, which compares the same range alone.
#include "backend/eval/loss/text_curve.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/loss/loss_change.h"

namespace foxscope {
namespace {

/// Losses that follow one another, as those of a text do. They are whole 1024ths, so that differences are exact.
std::vector<float> losses(std::size_t tokens) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 1);
  std::vector<float> values;
  double level = 0;
  for (std::size_t p = 0; p < tokens; ++p) {
    level = 0.6 * level + noise(random);
    values.push_back(static_cast<float>(std::round(1024 * (4 + level)) / 1024));
  }
  return values;
}

Estimate alone(const std::vector<float>& values, std::int64_t begin, std::int64_t end) {
  const std::vector<float> part(values.begin() + begin, values.begin() + end);
  return loss_change(part, std::vector<float>(part.size(), 0.0F)).mean;
}

TEST(TextCurve, EachPositionIsTheMeanOfItsRangeWithItsError) {
  const std::vector<float> values = losses(900);
  const std::vector<double> wide(values.begin(), values.end());
  const auto length = std::ssize(values);
  for (const std::int64_t width : {257, 401}) {
    const PositionCurve curve = text_curve(wide, width);
    ASSERT_EQ(std::ssize(curve.value), length);
    bool some = false;
    for (std::int64_t p = 0; p < length; p += 13) {
      const std::int64_t begin = std::max<std::int64_t>(0, p - width / 2);
      const std::int64_t end = std::min(length, p + width / 2 + 1);
      const Estimate expected = alone(values, begin, end);
      EXPECT_NEAR(curve.value[index_of(p)], expected.value, 1e-9);
      if (end - begin < 256) {
        EXPECT_TRUE(std::isnan(curve.error[index_of(p)])) << p;
        continue;
      }
      some = true;
      EXPECT_NEAR(curve.error[index_of(p)], expected.error, 1e-9) << p;
    }
    EXPECT_TRUE(some);
  }
}

TEST(TextCurve, AShortMeanHasNoError) {
  const std::vector<float> values = losses(600);
  const PositionCurve curve = text_curve(std::vector<double>(values.begin(), values.end()), 101);
  EXPECT_TRUE(std::ranges::all_of(curve.error, [](double error) { return std::isnan(error); }));
  const PositionCurve raw = text_curve(std::vector<double>(values.begin(), values.end()), 1);
  for (std::size_t p = 0; p < values.size(); ++p) EXPECT_DOUBLE_EQ(raw.value[p], static_cast<double>(values[p]));
}

TEST(TextCurve, PerplexityIsOfAllTokensBefore) {
  const std::vector<float> values = losses(700);
  const PositionCurve curve = text_perplexity_curve(std::vector<double>(values.begin(), values.end()));
  for (const std::int64_t length : {1, 2, 255, 256, 511, 700}) {
    const Estimate expected = alone(values, 0, length);
    const double perplexity = std::exp(expected.value);
    EXPECT_NEAR(curve.value[index_of(length - 1)], perplexity, 1e-9 * perplexity);
    if (length < 256) {
      EXPECT_TRUE(std::isnan(curve.error[index_of(length - 1)]));
    } else {
      EXPECT_NEAR(curve.error[index_of(length - 1)], expected.error * perplexity, 1e-9 * perplexity);
    }
  }
}

TEST(TextCurve, WidthsAreOdd) {
  const std::vector<double> values(10, 1.0);
  EXPECT_THROW(text_curve(values, 2), UsageError);
  EXPECT_THROW(text_curve(values, 0), UsageError);
}

}  // namespace
}  // namespace foxscope
