#include "backend/map/statistics/decay_split.h"

#include <cmath>
#include <stop_token>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

/// A matrix of attention, [L, L], NaN where absent.
struct Dense {
  std::vector<double> entry;
  std::size_t length = 0;
  [[nodiscard]] double at(std::size_t row, std::size_t key) const { return entry[row * length + key]; }
  [[nodiscard]] bool present(std::size_t row, std::size_t key) const { return !std::isnan(at(row, key)); }
};

/// Rows of exp(entry) that sum to 1.
Dense softmax(const Dense& logits) {
  Dense result = logits;
  for (std::size_t i = 0; i < logits.length; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) sum += logits.present(i, j) ? std::exp(logits.at(i, j)) : 0.0;
    for (std::size_t j = 0; j <= i; ++j) result.entry[i * logits.length + j] = std::exp(logits.at(i, j)) / sum;
  }
  return result;
}

/// Mean log distance, octaves, over keys from `first` on.
double mean_log_distance(const Dense& attention, std::size_t first) {
  double sum = 0;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < attention.length; ++i) {
    double mass = 0;
    double weighted = 0;
    for (std::size_t j = first; j <= i; ++j) {
      if (!attention.present(i, j)) continue;
      mass += attention.at(i, j);
      weighted += attention.at(i, j) * std::log2(1.0 + static_cast<double>(i - j));
    }
    if (mass > 0) {
      sum += weighted / mass;
      ++rows;
    }
  }
  return sum / static_cast<double>(rows);
}

double divergence(const Dense& a, const Dense& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.length; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      if (a.present(i, j) && a.at(i, j) > 0) sum += a.at(i, j) * std::log(a.at(i, j) / b.at(i, j));
    }
  }
  return sum / static_cast<double>(a.length);
}

double entropy(const Dense& attention) {
  double sum = 0;
  for (const double value : attention.entry) {
    if (value > 0) sum -= value * std::log(value);
  }
  return sum / static_cast<double>(attention.length);
}

void expect_profile(const DistanceProfile& actual, const Dense& attention, std::size_t first) {
  std::vector<double> mass(attention.length);
  double rows = 0;
  for (std::size_t i = 0; i < attention.length; ++i) {
    double sum = 0;
    for (std::size_t j = first; j <= i; ++j) sum += attention.present(i, j) ? attention.at(i, j) : 0.0;
    if (sum == 0) continue;
    ++rows;
    for (std::size_t j = first; j <= i; ++j) mass[i - j] += attention.present(i, j) ? attention.at(i, j) / sum : 0.0;
  }
  ASSERT_EQ(actual.mass.size(), mass.size());
  double total = 0;
  double d50 = -1;
  for (std::size_t distance = 0; distance < mass.size(); ++distance) {
    EXPECT_NEAR(actual.mass[distance], mass[distance] / rows, 2e-6) << distance;
    if (total < 0.5 && total + mass[distance] / rows >= 0.5) d50 = static_cast<double>(distance);
    total += mass[distance] / rows;
  }
  EXPECT_EQ(actual.d50, d50);
}

void expect_logits(const std::vector<LogitMeans>& actual, const Dense& content, const Dense& decay) {
  for (const LogitMeans& means : actual) {
    double of_content = 0;
    double of_decay = 0;
    double pairs = 0;
    for (std::size_t i = 0; i < content.length; ++i) {
      for (std::size_t j = 1; j <= i; ++j) {
        const auto distance = static_cast<std::int64_t>(i - j);
        if (distance < means.distance.from || distance >= means.distance.to || !content.present(i, j)) continue;
        of_content += content.at(i, j);
        of_decay += decay.at(i, j);
        ++pairs;
      }
    }
    EXPECT_NEAR(means.content, of_content / pairs, 1e-6) << means.distance.from;
    EXPECT_NEAR(means.decay, of_decay / pairs, 1e-8 * (1 - of_decay / pairs)) << means.distance.from;
  }
}

/// All that the split says, against dense float64.
void expect_split(const HeadOf& head) {
  const auto length = static_cast<std::size_t>(head.trace->info().length);
  const DenseHead dense(head);
  const Dense content{dense.entries(Quantity::logits), length};
  const Dense decay{dense.entries(Quantity::log_forget), length};
  Dense both = content;
  Dense nothing = content;
  for (std::size_t n = 0; n < both.entry.size(); ++n) {
    both.entry[n] += decay.entry[n];
    nothing.entry[n] *= 0;
  }
  const Dense with_both = softmax(both), with_content = softmax(content);
  const Dense with_decay = softmax(decay), uniform = softmax(nothing);

  const HeadStatistics statistics = head_statistics(head, {}, {}).value();
  const DecaySplit split = decay_split(head, statistics, {}).value();
  for (const std::size_t first : {0U, 1U}) {
    const Locality& locality = first == 0 ? split.locality : split.locality_without_first;
    EXPECT_NEAR(locality.uniform, mean_log_distance(uniform, first), 1e-9);
    EXPECT_NEAR(locality.decay_only, mean_log_distance(with_decay, first), 1e-5);
    EXPECT_NEAR(locality.content_only, mean_log_distance(with_content, first), 1e-5);
    EXPECT_NEAR(locality.both, mean_log_distance(with_both, first), 1e-5);
    EXPECT_NEAR(locality.by_decay() + locality.by_content(), locality.total(), 1e-12);
  }
  EXPECT_NEAR(split.divergence, divergence(with_both, with_content), 2e-6 * (1 + split.divergence));
  EXPECT_NEAR(split.without_gate.entropy, entropy(with_content), 1e-5);
  EXPECT_NEAR(split.without_content.entropy, entropy(with_decay), 1e-5);
  expect_profile(split.without_gate.distance, with_content, 0);
  expect_profile(split.without_gate.distance_without_first, with_content, 1);
  expect_profile(split.without_content.distance, with_decay, 0);
  expect_profile(split.without_content.distance_without_first, with_decay, 1);
  expect_logits(split.logits, content, decay);
}

TEST(DecaySplit, EqualsADenseOne) {
  RunShape shape;
  shape.length = 700;
  shape.heads = 4;
  shape.key_heads = 2;
  const auto run = make_run(shape);
  for (int head = 0; head < 4; ++head) expect_split({run, 0, head});
}

TEST(DecaySplit, EqualsADenseOneWithinAWindowAndWithoutAGate) {
  RunShape shape;
  shape.length = 400;
  shape.window = 90;
  shape.dtype = DType::bfloat16;
  shape.heads = 2;
  shape.key_heads = 2;
  expect_split({make_run(shape), 0, 1});
  shape.gated = false;
  expect_split({make_run(shape), 0, 0});
  shape.window = 0;
  expect_split({make_run(shape), 0, 0});
}

TEST(DecaySplit, EqualsADenseOneOfCappedLogits) {
  RunShape shape;
  shape.length = 300;
  shape.logit_cap = 0.8;
  expect_split({make_run(shape), 0, 0});
  shape.windows = {70};
  expect_split({make_run(shape), 0, 0});
}

TEST(DecaySplit, SeesThroughHeadsThatParkOnTheFirstKey) {
  RunShape shape;
  shape.length = 300;
  shape.parks_on_first = 12.0;
  shape.log_gate = [](int, std::int64_t, double normal) { return -0.01 * std::abs(normal); };
  expect_split({make_run(shape), 0, 0});
}

TEST(DecaySplit, WithoutAGateAllLocalityIsContents) {
  RunShape shape;
  shape.length = 200;
  shape.gated = false;
  shape.keeps_gates = false;
  const HeadOf head{make_run(shape), 0, 0};
  const HeadStatistics statistics = head_statistics(head, {}, {}).value();
  const DecaySplit split = decay_split(head, statistics, {}).value();
  EXPECT_EQ(split.divergence, 0.0);
  EXPECT_EQ(split.locality.by_decay(), 0.0);
  EXPECT_EQ(split.locality.by_content(), split.locality.total());
  EXPECT_EQ(split.logits.back().decay, 0.0);
}

TEST(DecaySplit, OfEqualLogitsAllLocalityIsTheGates) {
  // One number a key, and it is 0 but for key 0, which the limit of 1e-9 makes 0 too.
  RunShape shape;
  shape.length = 500;
  shape.parks_on_first = 1e-9;
  shape.head_dim = 1;
  shape.log_gate = [](int, std::int64_t, double) { return -0.1; };
  const HeadOf head{make_run(shape), 0, 0};
  const HeadStatistics statistics = head_statistics(head, {}, {}).value();
  const DecaySplit split = decay_split(head, statistics, {}).value();
  EXPECT_NEAR(split.locality.by_content(), 0.0, 1e-5);
  EXPECT_NEAR(split.locality.by_decay(), split.locality.total(), 1e-5);
  EXPECT_GT(split.locality.total(), 3.0);
  // The mean distance of 64 to 127 tokens is 95.5, with fewer rows at the far end.
  const auto& bin = split.logits[7];
  EXPECT_EQ(bin.distance, (DistanceBin{64, 128}));
  EXPECT_NEAR(bin.decay, -0.1 * 95.5, 0.1);
}

TEST(DecaySplit, OfOneToken) {
  RunShape shape;
  shape.length = 1;
  const HeadOf head{make_run(shape), 0, 0};
  const HeadStatistics statistics = head_statistics(head, {}, {}).value();
  const DecaySplit split = decay_split(head, statistics, {}).value();
  EXPECT_NEAR(split.locality.total(), 0.0, 1e-9);
  EXPECT_NEAR(split.divergence, 0.0, 1e-6);
  ASSERT_EQ(split.logits.size(), 1U);
  EXPECT_TRUE(std::isnan(split.logits[0].content));
}

TEST(DecaySplit, StopsWhenAskedTo) {
  RunShape shape;
  const HeadOf head{make_run(shape), 0, 0};
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(decay_split(head, {}, {stop.get_token(), {}, nullptr}).has_value());
}

TEST(DecaySplit, NeedsQueriesAndKeys) {
  RunShape shape;
  shape.keeps_query_key = false;
  EXPECT_THROW(decay_split({make_run(shape), 0, 0}, {}, {}), Error);
}

TEST(DistanceBins, DoubleAndCoverEveryDistanceOnce) {
  const std::vector<DistanceBin> expected = {{0, 1}, {1, 2}, {2, 4}, {4, 8}, {8, 11}};
  EXPECT_EQ(distance_bins(11), expected);
  EXPECT_EQ(distance_bins(1), (std::vector<DistanceBin>{{0, 1}}));
}

// Mass that is the same in every octave of 1 + distance is drawn as a level line: sums of bins dip at distance 1 and
// fall at the end.
TEST(DistanceBins, MassByTheOctaveIsTheBinsOverTheirWidths) {
  for (const std::int64_t length : {1, 2, 3, 80, 128, 700, 4096, 5000}) {
    std::vector<double> mass;
    for (std::int64_t d = 0; d < length; ++d)
      mass.push_back(std::log2((2.0 + static_cast<double>(d)) / (1.0 + static_cast<double>(d))));
    const std::vector<DistanceBin> bins = distance_bins(length);
    const std::vector<double> sums = binned(mass);
    for (std::size_t n = 0; n < bins.size(); ++n)
      EXPECT_NEAR(sums[n] / octaves(bins[n]), 1, 1e-12) << length << " " << n;
    // What the text's end cuts below half an octave is not drawn.
    const double last =
        std::log2((1.0 + static_cast<double>(bins.back().to)) / (1.0 + static_cast<double>(bins.back().from)));
    EXPECT_EQ(drawn_bins(bins), bins.size() - (last < 0.5 ? 1 : 0)) << length;
  }
  EXPECT_NEAR(octaves({1, 2}), 0.585, 1e-3);
  EXPECT_NEAR(octaves({2, 4}), 0.737, 1e-3);
  EXPECT_EQ(drawn_bins(distance_bins(80)), distance_bins(80).size() - 1);
  EXPECT_EQ(drawn_bins(distance_bins(4096)), distance_bins(4096).size());
  EXPECT_EQ(drawn_bins({}), 0U);
  const std::vector<double> mass = {1, 2, 4, 8, 16, 32};
  EXPECT_EQ(binned(mass), (std::vector<double>{1, 2, 12, 48}));
}

}  // namespace
}  // namespace foxscope::test
