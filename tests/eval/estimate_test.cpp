// Errors, what they are over, and what is beyond chance: Student's t against closed forms, the rest by simulation.
#include "backend/eval/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/eval/loss/loss_change.h"
#include "backend/eval/student_t.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// P(|T| < t) for a whole number of degrees: Abramowitz and Stegun 26.7.3 and 26.7.4.
double inside_by_series(double t, int degrees) {
  const double theta = std::atan(t / std::sqrt(degrees));
  const double square = std::cos(theta) * std::cos(theta);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(theta) : 1;
  double sum = 0;
  for (int k = odd ? 1 : 0; k <= degrees - 2; k += 2) {
    sum += term;
    term *= square * (k + 1) / (k + 2);
  }
  if (odd) return 2 / std::numbers::pi * (theta + std::sin(theta) * sum);
  return std::sin(theta) * sum;
}

TEST(StudentT, IsTheSeriesOfWholeDegrees) {
  for (const int degrees : {1, 2, 3, 4, 7, 8, 15, 63, 200, 1001}) {
    for (const double t : {0.001, 0.5, 1.0, 2.0, 3.3, 12.0}) {
      EXPECT_NEAR(student_t_outside(t, degrees), 1 - inside_by_series(t, degrees), 1e-12) << t << " of " << degrees;
      EXPECT_EQ(student_t_outside(-t, degrees), student_t_outside(t, degrees));
    }
  }
}

// The density, summed: for degrees that are not whole.
TEST(StudentT, IsTheIntegralOfItsDensity) {
  for (const double degrees : {1.5, 3.37, 9.04}) {
    const double scale =
        std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(degrees * std::numbers::pi);
    const auto density = [&](double t) { return scale * std::pow(1 + t * t / degrees, -(degrees + 1) / 2); };
    constexpr int kSteps = 2000;
    for (const double t : {0.7, 2.2}) {
      const double step = t / kSteps;
      double inside = density(0) + density(t);
      for (int n = 1; n < kSteps; ++n) inside += (n % 2 == 1 ? 4 : 2) * density(n * step);
      EXPECT_NEAR(student_t_outside(t, degrees), 1 - 2 * inside * step / 3, 1e-10) << t << " of " << degrees;
    }
  }
}

TEST(StudentT, FarOutItKeepsItsDigits) {
  EXPECT_NEAR(student_t_outside(1e9, 1) / (2 / (std::numbers::pi * 1e9)), 1, 1e-9);
  EXPECT_NEAR(student_t_outside(8, 1e7) / std::erfc(8 / std::numbers::sqrt2), 1, 3e-4);
  EXPECT_EQ(student_t_outside(0, 5), 1);
  EXPECT_EQ(student_t_outside(INFINITY, 5), 0);
}

TEST(StudentT, HalfWidthsAreThoseOfTheTables) {
  // Abramowitz and Stegun, table 26.10, and scipy 1.11 for the last digits.
  EXPECT_NEAR(student_t_half_width(0.95, 1), 12.706204736, 1e-8);
  EXPECT_NEAR(student_t_half_width(0.95, 7), 2.364624252, 1e-8);
  EXPECT_NEAR(student_t_half_width(0.95, 15), 2.131449546, 1e-8);
  EXPECT_NEAR(student_t_half_width(0.99, 7), 3.499483297, 1e-8);
  EXPECT_NEAR(student_t_half_width(0.95, 1e7), 1.959963985, 1e-6);
}

ErrorGroups documents_of(const std::vector<double>& sizes) { return group_sizes(ErrorGroups::Kind::documents, sizes); }

TEST(ErrorGroups, EqualOnesHaveAsManyDegreesAsGroupsLessOne) {
  for (const std::size_t count : {2U, 3U, 4U, 10U, 500U}) {
    const ErrorGroups groups = documents_of(std::vector<double>(count, 1234));
    const auto number = static_cast<double>(count);
    EXPECT_EQ(groups.count, static_cast<std::int64_t>(count));
    EXPECT_NEAR(groups.effective, number, 1e-9 * number);
    EXPECT_NEAR(groups.degrees, number - 1, 1e-9 * number);
    EXPECT_EQ(groups.suffice(), count >= 4);
  }
  EXPECT_EQ(documents_of({5, 5, 5, 5}), documents_of({5, 0, 5, 5, 0, 5}));
  EXPECT_FALSE(documents_of({}).suffice());
  // Tokens of four documents of about one size: effectively 3.9971.
  EXPECT_TRUE(documents_of({1000, 1040, 1050, 980}).suffice());
  EXPECT_TRUE(documents_of({4, 4, 4, 3}).suffice());
  EXPECT_FALSE(documents_of({2, 2, 2, 1}).suffice()) << "2.46 degrees of freedom";
  EXPECT_FALSE(documents_of({100, 100, 100, 1}).suffice());
  EXPECT_FALSE(documents_of({7}).suffice());
}

// The degrees of freedom are 2 E(v)^2 / var(v) of the squared error v where documents differ by independent normal
// amounts.
TEST(ErrorGroups, DegreesAreThoseOfTheSquaredError) {
  const std::vector<double> sizes = {10, 3, 2, 2, 2, 1, 1, 1, 1, 1};
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  constexpr int kDraws = 100'000;
  double first = 0;
  double second = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> level(sizes.size());
    double mean = 0;
    for (std::size_t g = 0; g < sizes.size(); ++g) mean += (level[g] = normal(random)) * sizes[g] / sum;
    double v = 0;
    for (std::size_t g = 0; g < sizes.size(); ++g) v += std::pow((level[g] - mean) * sizes[g] / (sum - sizes[g]), 2);
    first += v / kDraws;
    second += v * v / kDraws;
  }
  const ErrorGroups groups = documents_of(sizes);
  EXPECT_NEAR(groups.degrees, 2 * first * first / (second - first * first), 0.05);
  EXPECT_NEAR(groups.effective, 24.0 * 24 / 126, 1e-12);
  EXPECT_FALSE(groups.suffice()) << "four and a half effective documents, of which one outweighs the others";
}

/// The share of draws of random document effects whose mean is within one error of the truth, 0; NaN: no error.
double coverage(const std::vector<int>& windows, double within) {
  std::mt19937 random(static_cast<unsigned>(windows.size() + 1));
  std::normal_distribution<double> normal;
  constexpr int kDraws = 20'000;
  int covered = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> values;
    std::vector<std::int32_t> documents;
    for (std::size_t document = 0; document < windows.size(); ++document) {
      const double level = normal(random);
      for (int window = 0; window < windows[document]; ++window) {
        values.push_back(level + within * normal(random));
        documents.push_back(static_cast<std::int32_t>(document));
      }
    }
    const Estimate mean = clustered_mean(values, documents);
    if (std::isnan(mean.error)) return mean.error;
    covered += std::abs(mean.value) < mean.error ? 1 : 0;
  }
  return static_cast<double>(covered) / kDraws;
}

// The spread over windows, clustered with the sandwich, covered 14 % with 13 + 1 windows, 10 % with 22 + 1 + 1 and 51 %
// with the ten documents: one document that outweighs the others tells nothing of how documents differ.
TEST(Estimate, OneErrorCoversTwoThirdsOrIsNotKnown) {
  const std::vector<std::vector<int>> unknown = {
      {13, 1}, {22, 1, 1}, {10, 3, 2, 2, 2, 1, 1, 1, 1, 1}, {5, 5}, {3, 3, 3}, {2, 1, 1, 1}, {7}};
  for (const auto& windows : unknown) {
    EXPECT_TRUE(std::isnan(coverage(windows, 0.3))) << testing::PrintToString(windows);
  }
  const std::vector<std::vector<int>> known = {{1, 1, 1, 1},
                                               {4, 4, 4, 3},
                                               {5, 5, 5, 5, 5},
                                               std::vector<int>(12, 2),
                                               std::vector<int>(40, 1),
                                               {5, 3, 3, 3, 3, 2, 2, 1, 1, 1},
                                               {5, 5, 5, 5, 1, 1, 1, 1}};
  for (const auto& windows : known) {
    for (const double within : {0.0, 0.3, 2.0}) {
      const double covered = coverage(windows, within);
      EXPECT_GT(covered, 0.60) << testing::PrintToString(windows) << " " << within;
      EXPECT_LT(covered, 0.75) << testing::PrintToString(windows) << " " << within;
      RecordProperty("covered", std::to_string(covered));
    }
  }
}

// White noise that tells nothing: an error of unequal blocks called up to 61 % of it beyond two errors.
TEST(Estimate, OneChangeOfNothingInTwentyIsBeyondChance) {
  constexpr int kDraws = 2000;
  for (const std::size_t tokens : {33U, 40U, 64U, 100U, 200U, 255U, 256U, 257U, 288U, 319U, 333U, 400U, 450U, 500U}) {
    std::mt19937 random(static_cast<unsigned>(tokens));
    std::normal_distribution<float> noise;
    const std::vector<float> unchanged(tokens, 0);
    std::vector<float> changed(tokens);
    int beyond = 0;
    int known = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      for (float& loss : changed) loss = noise(random);
      const Estimate mean = loss_change(changed, unchanged, 0).mean;
      known += std::isnan(mean.error) ? 0 : 1;
      beyond += beyond_chance(mean) ? 1 : 0;
    }
    EXPECT_EQ(known, tokens < 256 ? 0 : kDraws) << tokens;
    const double share = static_cast<double>(beyond) / kDraws;
    if (tokens < 256) {
      EXPECT_EQ(beyond, 0) << tokens;
    } else {
      EXPECT_GE(share, 0.04) << tokens;
      EXPECT_LE(share, 0.07) << tokens;
    }
  }
}

TEST(Estimate, NothingIsNotBeyondChance) {
  const ErrorGroups blocks = error_blocks(2048);
  EXPECT_EQ(p_value({0, 0, blocks}), 1) << "0 +- 0";
  EXPECT_FALSE(beyond_chance({0, 0, blocks}));
  EXPECT_EQ(p_value({0.1, 0, blocks}), 0);
  EXPECT_TRUE(beyond_chance({0.1, 0, blocks}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(p_value({0.1, nan, error_blocks(100)})));
  EXPECT_FALSE(beyond_chance({0.1, nan, error_blocks(100)}));
  // At the ends of the interval.
  const double half = interval_half_width(blocks);
  EXPECT_TRUE(beyond_chance({-half * 1.000001, 1, blocks}));
  EXPECT_FALSE(beyond_chance({half * 0.999999, 1, blocks}));
}

TEST(Estimate, DiscoveriesAreTheLargestStepUp) {
  // The example of Benjamini and Hochberg 1995, section 3.2: at 0.05 the first four of fifteen.
  const std::vector<double> p = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  std::vector<double> shuffled = p;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
  const std::vector<bool> named = discoveries(shuffled, 0.05);
  for (std::size_t n = 0; n < p.size(); ++n) EXPECT_EQ(named[n], shuffled[n] <= 0.0095) << shuffled[n];
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(discoveries(std::vector{nan, 0.02, nan}, 0.05), (std::vector{false, true, false}));
  EXPECT_EQ(discoveries({}, 0.05), std::vector<bool>());
  // 0.04 does not reach its step of 0.05 / 2, but 0.045 reaches the last: both are named.
  EXPECT_EQ(discoveries(std::vector{0.04, 0.045}, 0.05), (std::vector{true, true}));
  for (const double rate : {0.0, 1.0, -1.0, nan}) {
    EXPECT_TRUE(test::says(test::error_of([&] { (void)discoveries(p, rate); }), {"--fdr", "above 0 and below 1"}));
  }
}

TEST(Estimate, WordsSayWhatItIsOver) {
  EXPECT_EQ(estimate_text({1.23456, 0.00671, {}}, 4), "1.2346 ± 0.0067");
  EXPECT_EQ(estimate_text({1.23456, NAN, {}}, 2), "1.23");
  EXPECT_EQ(groups_text(documents_of({3, 3, 3, 3})), "4 documents");
  EXPECT_EQ(groups_text(documents_of({1000, 1040, 1050, 980})), "4 documents");
  EXPECT_EQ(groups_text(documents_of({4, 4, 4, 3})), "4 documents, effectively 3.9");
  EXPECT_EQ(groups_text(documents_of({13, 1})), "2 documents, effectively 1.2");
  EXPECT_EQ(groups_text(error_blocks(2048)), "64 blocks of 32 tokens");
  EXPECT_EQ(groups_text(error_blocks(20)), "1 block of 20 tokens");
  EXPECT_EQ(errors_text(documents_of(std::vector<double>(16, 1))),
            "± 1 standard error over 16 documents; a 95 % interval is ± 2.13 errors (Student's t)");
  EXPECT_EQ(errors_text(documents_of({9})), "no errors: all windows lie in one document");
  EXPECT_EQ(errors_text(documents_of({13, 1})),
            "no errors: the windows lie in 2 documents, effectively 1.2, and an error takes 4 of about one size "
            "(effectively 3.5): use more documents");
  EXPECT_EQ(
      errors_text(documents_of({10, 3, 2, 2, 2, 1, 1, 1, 1, 1})),
      "no errors: a few of the 10 documents (effectively 4.6) outweigh the others and leave 1.5 degrees of freedom, "
      "and an error takes 2.5: use more documents, of about one size");
  EXPECT_EQ(errors_text(error_blocks(200)), "no errors: the text gives 6 blocks of 33 tokens, and an error takes 8");
  const ErrorGroups blocks = error_blocks(2048);
  const std::vector<Estimate> heads = {{1, 0.1, blocks}, {0.21, 0.1, blocks}, {0, 0.1, blocks}, {0.1, 0.1, blocks}};
  EXPECT_EQ(beyond_chance_text(heads),
            "2 of 4 heads are beyond chance (0 is outside their 95 % interval; of heads that matter nothing one in "
            "twenty is, here 0.2); 1 at a false discovery rate of 5 %");
  // Heads in which nothing changes are no trial.
  std::vector<Estimate> more(heads.begin(), heads.end());
  more.insert(more.end(), 2, Estimate{0, 0, heads.front().over});
  EXPECT_EQ(beyond_chance_text(more),
            beyond_chance_text(heads) + "; not counted: 2 heads in which the change alters nothing");
  EXPECT_TRUE(beyond_chance_text(std::vector<Estimate>{heads.front()}).starts_with("1 of 1 head is beyond chance"));
  EXPECT_EQ(beyond_chance_text(std::vector<Estimate>{{1, NAN, {}}}), "");
}

}  // namespace
}  // namespace foxscope
