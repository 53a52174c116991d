// Means over windows and their errors, against the definitions written out.
#include "backend/eval/loss/loss_statistics.h"

#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// Losses that are like each other within documents.
struct Sample {
  LossTable table;
  std::vector<std::int32_t> documents = {4, 4, 1, 7, 1, 5, 2, 6};

  explicit Sample(unsigned seed, std::int64_t length = 40) {
    std::mt19937 random(seed);
    std::normal_distribution<float> noise(0, 1);
    std::map<std::int32_t, float> level;
    for (const std::int32_t document : documents) level.emplace(document, 3 + noise(random));
    table.windows = static_cast<std::int64_t>(documents.size());
    table.length = length;
    table.tokens.assign(documents.size(), length);
    for (const std::int32_t document : documents) {
      for (std::int64_t p = 0; p < length; ++p) table.loss.push_back(level[document] + noise(random));
    }
  }
};

/// Mean of one number a window, and its error by leaving out each document in turn.
Estimate by_hand(const std::vector<double>& values, const std::vector<std::int32_t>& documents) {
  const auto mean_without = [&](std::optional<std::int32_t> left_out) {
    double sum = 0;
    double count = 0;
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (documents[n] == left_out) continue;
      sum += values[n];
      ++count;
    }
    return sum / count;
  };
  const double mean = mean_without(std::nullopt);
  const std::set<std::int32_t> all(documents.begin(), documents.end());
  double squares = 0;
  for (const std::int32_t document : all) squares += std::pow(mean_without(document) - mean, 2);
  const auto groups = static_cast<double>(all.size());
  return {mean, std::sqrt((groups - 1) / groups * squares), {}};
}

void expect_near(const Estimate& found, const Estimate& expected) {
  EXPECT_NEAR(found.value, expected.value, 1e-12);
  EXPECT_NEAR(found.error, expected.error, 1e-12);
}

TEST(LossStatistics, DocumentsAreThoseOfTheWindows) {
  const Sample sample(1);
  std::vector<std::int32_t> more = sample.documents;
  more.push_back(3);
  for (const std::vector<std::int32_t>& documents : {std::vector<std::int32_t>{4, 4}, more}) {
    const std::vector<double> means = window_means(sample.table, 5, 17);
    EXPECT_THROW(clustered_mean(means, documents), ShapeError);
    EXPECT_THROW(loss_curve(sample.table, documents, 1), ShapeError);
    EXPECT_THROW(perplexity_curve(sample.table, documents), ShapeError);
  }
}

TEST(LossStatistics, MeanClusteredByDocument) {
  const Sample sample(1);
  const std::vector<double> means = window_means(sample.table, 5, 17);
  for (std::size_t window = 0; window < means.size(); ++window) {
    double sum = 0;
    for (std::int64_t p = 5; p < 17; ++p) {
      sum += static_cast<double>(sample.table.row(static_cast<std::int64_t>(window))[index_of(p)]);
    }
    EXPECT_NEAR(means[window], sum / 12, 1e-12);
  }
  expect_near(clustered_mean(means, sample.documents), by_hand(means, sample.documents));
}

// With one window a document it is the textbook's standard error; copies of a window in its document tell nothing new.
TEST(LossStatistics, ClustersOfOneAndOfCopies) {
  const std::vector<double> values = {1.0, 2.5, 4.0, 0.5};
  const double variance = (1.0 + 0.25 + 4.0 + 2.25) / 3;
  EXPECT_NEAR(clustered_mean(values, std::vector<std::int32_t>{0, 1, 2, 3}).error, std::sqrt(variance / 4), 1e-12);
  const std::vector<double> twice = {1.0, 1.0, 2.5, 2.5, 4.0, 4.0, 0.5, 0.5};
  EXPECT_NEAR(clustered_mean(twice, std::vector<std::int32_t>{0, 0, 1, 1, 2, 2, 3, 3}).error, std::sqrt(variance / 4),
              1e-12);
}

// Of two documents of which one holds all windows but one there is no error.
TEST(LossStatistics, CurvesSayWhatTheyAreOver) {
  const Sample sample(9);
  const PositionCurve curve = loss_curve(sample.table, sample.documents, 5);
  EXPECT_EQ(curve.over.count, 6);
  EXPECT_NEAR(curve.over.effective, 64.0 / 12, 1e-12);
  std::vector<std::int32_t> alike(sample.documents.size(), 1);
  alike.back() = 2;
  const PositionCurve unknown = loss_curve(sample.table, alike, 5);
  EXPECT_EQ(unknown.value, curve.value);
  for (const double error : unknown.error) EXPECT_TRUE(std::isnan(error));
}

TEST(LossStatistics, NoErrorOfASingleDocument) {
  const std::vector<double> values = {1.0, 2.0};
  const Estimate mean = clustered_mean(values, std::vector<std::int32_t>{3, 3});
  EXPECT_EQ(mean.value, 1.5);
  EXPECT_TRUE(std::isnan(mean.error));
}

// Leaving out a document each time, written out, with documents and windows of many sizes.
TEST(LossStatistics, RatioIsTheJackknife) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> nats;
  std::vector<double> bytes;
  std::vector<std::int32_t> documents;
  std::vector<double> sizes(20);
  for (std::int32_t n = 0; n < 60; ++n) {
    documents.push_back(n * n % 20);
    bytes.push_back(5000 + 1500 * noise(random));
    nats.push_back(bytes.back() * (0.9 + 0.2 * noise(random)));
    sizes[index_of(documents.back())] += bytes.back();
  }
  const Estimate ratio = clustered_ratio(nats, bytes, documents);
  const auto without = [&](std::int32_t left_out) {
    double a = 0;
    double b = 0;
    for (std::size_t n = 0; n < nats.size(); ++n) {
      if (documents[n] == left_out) continue;
      a += nats[n];
      b += bytes[n];
    }
    return a / b;
  };
  EXPECT_EQ(ratio.value, without(-1));
  double squares = 0;
  for (std::int32_t document = 0; document < 20; ++document) {
    squares += std::pow(without(document) - ratio.value, 2);
  }
  const auto groups = static_cast<double>(ratio.over.count);
  EXPECT_EQ(ratio.over, group_sizes(ErrorGroups::Kind::documents, sizes));
  EXPECT_NEAR(ratio.error, std::sqrt(squares * (groups - 1) / groups), 1e-12);
}

TEST(LossStatistics, DifferenceOfRatiosIsPaired) {
  const std::vector<double> bytes = {100, 110, 90, 105, 95, 110, 90, 100};
  const std::vector<std::int32_t> documents = {0, 0, 1, 2, 3, 4, 5, 6};
  std::vector<double> nats = {90, 80, 100, 95, 70, 99, 70, 88};
  std::vector<double> others = nats;
  for (std::size_t n = 0; n < nats.size(); ++n) others[n] += 0.01 * bytes[n];  // worse by the same everywhere
  const Estimate difference = clustered_ratio_difference({nats, bytes}, {others, bytes}, documents);
  EXPECT_NEAR(difference.value, -0.01, 1e-12);
  EXPECT_NEAR(difference.error, 0, 1e-12);
  EXPECT_GT(clustered_ratio(nats, bytes, documents).error, 0.01);
}

std::vector<double> smoothed_at(const LossTable& table, std::int64_t p, std::int64_t width) {
  return window_means(table, std::max<std::int64_t>(0, p - width / 2), std::min(table.length, p + width / 2 + 1));
}

TEST(LossStatistics, SmoothedCurvesAndTheirBands) {
  const Sample sample(2);
  for (const std::int64_t width : {1, 5, 21, 101}) {
    const PositionCurve curve = loss_curve(sample.table, sample.documents, width);
    ASSERT_EQ(curve.value.size(), 40U);
    for (std::int64_t p = 0; p < 40; ++p) {
      const auto at = static_cast<std::size_t>(p);
      expect_near({curve.value[at], curve.error[at], {}},
                  by_hand(smoothed_at(sample.table, p, width), sample.documents));
    }
  }
}

TEST(LossStatistics, Perplexity) {
  const Sample sample(3);
  const PositionCurve curve = perplexity_curve(sample.table, sample.documents);
  for (std::int64_t l = 1; l <= 40; ++l) {
    const Estimate mean = by_hand(window_means(sample.table, 0, l), sample.documents);
    EXPECT_NEAR(curve.value[index_of(l - 1)], std::exp(mean.value), 1e-10);
    EXPECT_NEAR(curve.error[index_of(l - 1)], std::exp(mean.value) * mean.error, 1e-10);
  }
}

TEST(LossStatistics, DifferencesArePaired) {
  const Sample sample(4);
  LossTable other = sample.table;
  const Sample noise(5);
  for (std::size_t n = 0; n < other.loss.size(); ++n) other.loss[n] += 0.01F * noise.table.loss[n];
  const PositionCurve curve = difference_curve(sample.table, other, sample.documents, 9);
  const PositionCurve alone = loss_curve(sample.table, sample.documents, 9);
  for (std::int64_t p = 0; p < 40; ++p) {
    std::vector<double> differences = smoothed_at(sample.table, p, 9);
    const std::vector<double> others = smoothed_at(other, p, 9);
    for (std::size_t n = 0; n < differences.size(); ++n) differences[n] -= others[n];
    const auto at = static_cast<std::size_t>(p);
    expect_near({curve.value[at], curve.error[at], {}}, by_hand(differences, sample.documents));
    EXPECT_LT(curve.error[at], alone.error[at] / 10);
  }
}

TEST(LossStatistics, CurvesEndWithTheShortestWindow) {
  Sample sample(6);
  const PositionCurve whole = loss_curve(sample.table, sample.documents, 1);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t p = 30; p < 40; ++p) sample.table.loss[p] = missing;
  sample.table.tokens[0] = 30;
  EXPECT_EQ(sample.table.common_length(), 30);
  const PositionCurve cut = loss_curve(sample.table, sample.documents, 1);
  ASSERT_EQ(cut.value.size(), 40U);
  for (std::size_t p = 0; p < 40; ++p) {
    EXPECT_TRUE(p < 30 ? cut.value[p] == whole.value[p] : std::isnan(cut.value[p]));
    EXPECT_EQ(std::isnan(cut.error[p]), p >= 30);
  }
}

TEST(LossStatistics, WhatIsRefused) {
  using test::says;
  const Sample sample(7);
  const auto& documents = sample.documents;
  EXPECT_TRUE(says(test::error_of([&] { loss_curve(sample.table, documents, 100); }), {"100", "odd number"}));
  EXPECT_TRUE(says(test::error_of([&] { loss_curve(sample.table, documents, 0); }), {"odd number"}));
  EXPECT_TRUE(says(test::error_of([&] { window_means(sample.table, 5, 5); }), {"positions 5 to 4", "0 to 39"}));
  EXPECT_TRUE(says(test::error_of([&] { window_means(sample.table, 0, 41); }), {"0 to 40", "0 to 39"}));
  const Sample longer(7, 41);
  EXPECT_TRUE(says(test::error_of([&] { difference_curve(sample.table, longer.table, documents, 1); }),
                   {"difference_curve", "same tokens"}));
}

}  // namespace
}  // namespace foxscope
