// Statistics of sampled rows against dense float64, and against those of all rows within their errors.
#include "backend/map/statistics/sampled_spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/cuda/device.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

StatisticsOptions sampling(std::int64_t rows) {
  StatisticsOptions options;
  options.rows = rows;
  return options;
}

TEST(RowSample, HasTwoRowsOfEachStratumAndAlwaysTheSame) {
  for (const auto& [length, count] :
       {std::pair<std::int64_t, std::int64_t>{8192, 64}, {1000, 64}, {101, 100}, {7, 2}, {2, 2}, {66, 64}}) {
    const RowSample sample = sample_rows(length, count);
    ASSERT_EQ(std::ssize(sample.rows), count);
    ASSERT_EQ(std::ssize(sample.positions), count / 2);
    std::int64_t begin = 0;
    for (std::size_t h = 0; h < sample.positions.size(); ++h) {
      for (const std::int64_t row : {sample.rows[2 * h], sample.rows[2 * h + 1]}) {
        EXPECT_GE(row, begin);
        EXPECT_LT(row, begin + sample.positions[h]);
      }
      EXPECT_NE(sample.rows[2 * h], sample.rows[2 * h + 1]);
      begin += sample.positions[h];
    }
    EXPECT_EQ(begin, length);
    EXPECT_EQ(sample.rows, sample_rows(length, count).rows);
  }
}

/// The estimates of many random populations: (estimate - mean) / error is near standard normal, and the estimate is
/// exact where strata have two rows.
TEST(RowSample, MeansAreAsFarOffAsTheirErrorsSay) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  constexpr int kPopulations = 2000;
  const RowSample sample = sample_rows(900, 60);
  double squares = 0;
  double ratio_squares = 0;
  for (int population = 0; population < kPopulations; ++population) {
    std::vector<double> y(900);
    std::vector<double> x(900);
    for (std::size_t n = 0; n < y.size(); ++n) {
      y[n] = 0.01 * static_cast<double>(n) + normal(random);
      x[n] = 3 + normal(random);
    }
    std::vector<double> sampled_y;
    std::vector<double> sampled_x;
    for (const std::int64_t row : sample.rows) {
      sampled_y.push_back(y[index_of(row)]);
      sampled_x.push_back(x[index_of(row)]);
    }
    const double sum_y = std::accumulate(y.begin(), y.end(), 0.0);
    const double sum_x = std::accumulate(x.begin(), x.end(), 0.0);
    const RowEstimate mean = mean_of_rows(sample, sampled_y);
    squares += std::pow((mean.value - sum_y / 900) / mean.error, 2) / kPopulations;
    const RowEstimate ratio = ratio_of_rows(sample, sampled_y, sampled_x);
    ratio_squares += std::pow((ratio.value - sum_y / sum_x) / ratio.error, 2) / kPopulations;
  }
  // Student's t of about 15 degrees of freedom has a variance of 15 / 13; the mean of 2000 squares is within 5 errors.
  EXPECT_NEAR(squares, 15.0 / 13, 0.2);
  EXPECT_NEAR(ratio_squares, 15.0 / 13, 0.2);
  const RowSample all = sample_rows(6, 6);
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 9};
  EXPECT_NEAR(mean_of_rows(all, numbers).value, 4, 1e-12);
  EXPECT_EQ(mean_of_rows(all, numbers).error, 0);
}

/// Row numbers the plain way, from dense float64.
void expect_dense(const HeadOf& head) {
  const std::int64_t length = head.trace->info().length;
  const std::vector<double> attention = DenseHead(head).entries(Quantity::attention);
  const RowSample sample = sample_rows(length, 20);
  const HeadStatistics found = head_statistics(head, sampling(20), {}).value();
  ASSERT_TRUE(found.errors);
  std::vector<double> entropy;
  std::vector<double> first;
  std::vector<double> self;
  std::vector<double> decay;
  std::vector<double> mass(static_cast<std::size_t>(length));
  std::vector<double> others(static_cast<std::size_t>(length));
  double counted = 0;
  const bool gated = forgets(head.trace->info(), head.layer);
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    const std::int64_t row = sample.rows[n];
    const auto positions = static_cast<double>(sample.positions[n / 2]);
    const auto entry = [&](std::int64_t key) {
      const double value = attention[index_of(row * length + key)];
      return std::isnan(value) ? 0.0 : value;
    };
    double sums[2] = {};
    double beside = 0;
    for (std::int64_t key = 0; key <= row; ++key) {
      const double a = entry(key);
      if (a > 0) sums[0] -= a * std::log(a);
      if (gated) {
        const auto c = head.trace->cumulative_log_gate(head.layer, head.head);
        sums[1] += a * (c[index_of(row)] - c[index_of(key)]);
      }
      if (key > 0) beside += a;
      mass[index_of(row - key)] += positions / 2 * a / static_cast<double>(length);
    }
    entropy.push_back(sums[0]);
    decay.push_back(sums[1]);
    first.push_back(entry(0));
    self.push_back(entry(row));
    if (row == 0) continue;
    counted += positions / 2;
    for (std::int64_t key = 1; key <= row; ++key) others[index_of(row - key)] += positions / 2 * entry(key) / beside;
  }
  const auto expect = [&](double value, double error, const std::vector<double>& rows) {
    const RowEstimate expected = mean_of_rows(sample, rows);
    EXPECT_NEAR(value, expected.value, 2e-6 * (1 + std::abs(expected.value)));
    EXPECT_NEAR(error, expected.error, 2e-6 * (1 + std::abs(expected.value)));
  };
  expect(found.entropy, found.errors->entropy, entropy);
  expect(found.mass_on_first, found.errors->mass_on_first, first);
  expect(found.mass_on_self, found.errors->mass_on_self, self);
  expect(found.mean_log_decay, found.errors->mean_log_decay, decay);
  for (std::size_t distance = 0; distance < mass.size(); ++distance) {
    ASSERT_NEAR(found.distance.mass[distance], mass[distance], 1e-6) << distance;
    ASSERT_NEAR(found.distance_without_first.mass[distance], others[distance] / counted, 2e-6) << distance;
  }
}

TEST(SampledSpread, EqualsDenseRows) {
  RunShape shape;
  shape.length = 333;
  shape.heads = 4;
  shape.key_heads = 2;
  for (const bool gated : {true, false}) {
    for (const std::int64_t window : {0, 90}) {
      shape.gated = gated;
      shape.window = window;
      const auto run = make_run(shape);
      for (int head = 0; head < 4; ++head) expect_dense({run, 0, head});
    }
  }
}

void expect_within(const char* what, double value, double error, double exact, double rounding = 2e-6) {
  EXPECT_TRUE(std::isnan(value) == std::isnan(exact)) << what;
  if (std::isnan(exact)) return;
  EXPECT_NEAR(value, exact, 5 * error + rounding) << what << " ±" << error;
}

void expect_within(const DistanceProfile& found, const ProfileErrors& errors, const DistanceProfile& exact) {
  const std::vector<double> masses = binned(found.mass);
  const std::vector<double> expected = binned(exact.mass);
  ASSERT_EQ(errors.mass.size(), masses.size());
  double within = 0;
  double exact_within = 0;
  for (std::size_t bin = 0; bin < masses.size(); ++bin) {
    expect_within("mass", masses[bin], errors.mass[bin], expected[bin]);
    expect_within("mass within", within += masses[bin], errors.within[bin], exact_within += expected[bin]);
  }
  // Distances are whole numbers.
  expect_within("d50", found.d50, errors.d50, exact.d50, 1);
  expect_within("d90", found.d90, errors.d90, exact.d90, 1);
}

/// Statistics of 128 rows against those of all: entries of random heads are log-normal, and the error of few rows of
/// such a number is often too small.
void expect_within_errors(const HeadOf& head) {
  const HeadStatistics all = head_statistics(head, {}, {}).value();
  const HeadStatistics found = head_statistics(head, sampling(128), {}).value();
  EXPECT_FALSE(all.errors);
  ASSERT_TRUE(found.errors);
  const SpreadErrors& errors = *found.errors;
  EXPECT_EQ(errors.rows, 128);
  expect_within("entropy", found.entropy, errors.entropy, all.entropy);
  expect_within("on first", found.mass_on_first, errors.mass_on_first, all.mass_on_first);
  expect_within("on self", found.mass_on_self, errors.mass_on_self, all.mass_on_self);
  expect_within("log decay", found.mean_log_decay, errors.mean_log_decay, all.mean_log_decay, 1e-5);
  ASSERT_EQ(found.mass_on_sink.has_value(), all.mass_on_sink.has_value());
  if (all.mass_on_sink) {
    expect_within("on sink", *found.mass_on_sink, errors.mass_on_sink.value(), *all.mass_on_sink);
  }
  expect_within(found.distance, errors.distance, all.distance);
  expect_within(found.distance_without_first, errors.distance_without_first, all.distance_without_first);
  for (int n = 0; n < kHeadLabels; ++n) {
    const char* const name = text_of(static_cast<HeadLabel>(n)).name;
    expect_within(name, found.label_scores[index_of(n)], errors.label_scores[index_of(n)],
                  all.label_scores[index_of(n)]);
  }
  EXPECT_EQ(found.repeats, all.repeats);
  EXPECT_EQ(found.rate_decay_time, all.rate_decay_time);  // gates are not sampled
}

TEST(SampledSpread, IsWithinFiveErrorsOfAllRows) {
  RunShape shape;
  shape.length = 1500;
  shape.heads = 4;
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position * position % 41); };
  for (const bool gated : {true, false}) {
    shape.gated = gated;
    const auto run = make_run(shape);
    for (int head = 0; head < (gated ? 4 : 1); ++head) expect_within_errors({run, 0, head});
  }
  shape.sinks = {-2, 0.5F, 3, 1};
  expect_within_errors({make_run(shape), 0, 1});
  shape.sinks = {};
  shape.window = 200;
  shape.dtype = DType::bfloat16;
  expect_within_errors({make_run(shape), 0, 2});
  shape.window = 0;
  shape.dtype = DType::float32;
  shape.parks_on_first = 12;
  expect_within_errors({make_run(shape), 0, 0});
  // Early rows that have nothing beside key 0.
  shape.parks_on_first = 0;
  shape.gated = false;
  shape.heads = 1;
  shape.fill = [](HostQueryKeyStore& store) {
    const std::int64_t dim = store.shape().head_dim;
    for (std::int64_t row = 0; row < store.shape().length; ++row) {
      auto* const query = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::query, 0).data()) + row * dim;
      auto* const key = reinterpret_cast<float*>(store.layer(QueryKeyStore::Part::key, 0).data()) + row * dim;
      if (row == 0) std::fill_n(key, dim, 0.0F);
      query[0] = row < 20 || (row < 200 && row % 2 == 0) ? 1e4F : 0.0F;
      key[0] = row == 0 ? 4.0F : 0.0F;
    }
  };
  expect_within_errors({make_run(shape), 0, 0});
}

/// Noise of few rows must not make the score of a positional head larger or smaller.
TEST(SampledSpread, OfPositionalHeadsIsPositional) {
  RunShape shape;
  shape.length = 1200;
  shape.log_gate = [](int, std::int64_t, double) { return -1.0 / 30; };
  shape.fill = [](HostQueryKeyStore& store) {
    for (const auto part : {QueryKeyStore::Part::query, QueryKeyStore::Part::key}) {
      std::ranges::fill(store.layer(part, 0), std::byte{0});
    }
  };
  const auto run = make_run(shape);
  const auto positional = index_of(static_cast<int>(HeadLabel::positional));
  const double exact = head_statistics({run, 0, 0}, {}, {})->label_scores[positional];
  EXPECT_GT(exact, 0.85);
  for (const std::int64_t rows : {32, 64, 128}) {
    const HeadStatistics found = head_statistics({run, 0, 0}, sampling(rows), {}).value();
    // Most of the error is that of a few strata, whose rows may happen to be alike.
    EXPECT_NEAR(found.label_scores[positional], exact, 5 * found.errors->label_scores[positional] + 0.01);
    EXPECT_LT(found.errors->label_scores[positional], 0.02);
  }
}

TEST(SampledSpread, OfLinearMixersIsWithinFiveErrors) {
  for (const LayerMixer& mixer : linear_mixers()) {
    SCOPED_TRACE(to_string(mixer.mixer));
    expect_within_errors({make_linear_run({mixer, 300}), 0, mixer.heads - 1});
  }
}

TEST(SampledSpread, OfAsManyRowsAsThereAreIsOfAll) {
  RunShape shape;
  shape.length = 100;
  const auto run = make_run(shape);
  for (const std::int64_t rows : {100, 102, 5000}) {
    const HeadStatistics found = head_statistics({run, 0, 0}, sampling(rows), {}).value();
    EXPECT_FALSE(found.errors);
    EXPECT_EQ(found.entropy, head_statistics({run, 0, 0}, {}, {})->entropy);
  }
}

std::string refusal(std::int64_t rows, std::int64_t length) {
  try {
    check_rows(rows, length);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SampledSpread, RefusesNumbersOfRowsThatItCannotDraw) {
  EXPECT_EQ(refusal(64, 8192), "");
  EXPECT_EQ(refusal(0, 8192), "");
  EXPECT_EQ(refusal(1 << 20, 8192), "");
  EXPECT_EQ(refusal(-4, 8192), "--rows -4: it must be at least 2");
  EXPECT_EQ(refusal(65, 8192),
            "--rows 65: rows are drawn in pairs, whose difference gives the error: give an even number");
  EXPECT_EQ(refusal(10000, 65536),
            "--rows 10000: of a text of 65,536 tokens at most 4,096 rows can be sampled; leave out --rows to measure "
            "all of them");
}

TEST(SampledSpread, StopsWhenAskedTo) {
  RunShape shape;
  shape.length = 400;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(head_statistics({make_run(shape), 0, 0}, sampling(10), Job{stop.get_token(), {}, nullptr}));
}

class CudaSampledSpread : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }
};

/// @param looseness  by which entries are less precise than those of softmax
void expect_near_sample(const HeadStatistics& found, const HeadStatistics& expected, double looseness) {
  EXPECT_NEAR(found.entropy, expected.entropy, 1e-5 * looseness);
  EXPECT_NEAR(found.errors->entropy, expected.errors->entropy, 1e-5 * looseness);
  EXPECT_NEAR(found.mass_on_self, expected.mass_on_self, 1e-6 * looseness);
  EXPECT_NEAR(found.mean_log_decay, expected.mean_log_decay,
              1e-5 * looseness * std::max(1.0, std::abs(expected.mean_log_decay)));
  EXPECT_EQ(found.rows_without_first, expected.rows_without_first);
  EXPECT_NEAR(found.distance.d50, expected.distance.d50, 1);
  ASSERT_EQ(found.distance.mass.size(), expected.distance.mass.size());
  for (std::size_t distance = 0; distance < found.distance.mass.size(); ++distance) {
    ASSERT_NEAR(found.distance.mass[distance], expected.distance.mass[distance], 1e-6 * looseness);
    ASSERT_NEAR(found.distance_without_first.mass[distance], expected.distance_without_first.mass[distance],
                3e-6 * looseness);
  }
  for (std::size_t score = 0; score < kHeadLabels; ++score) {
    EXPECT_NEAR(found.label_scores[score], expected.label_scores[score], 1e-5 * looseness) << score;
    EXPECT_NEAR(found.errors->label_scores[score], expected.errors->label_scores[score], 1e-5 * looseness) << score;
  }
}

TEST_F(CudaSampledSpread, OfLinearMixersEqualsTheCpus) {
  for (const LayerMixer& mixer : {mamba2_mixer(), gla_mixer(), delta_mixer(), gated_delta_mixer(192), gla_mixer(200)}) {
    const auto run = make_linear_run({mixer, 777});
    const int heads[] = {0, 1};
    const auto expected = layer_statistics({run, std::nullopt}, 0, heads, sampling(70), {}).value();
    const auto found = layer_statistics({run, 0}, 0, heads, sampling(70), {}).value();
    for (std::size_t n = 0; n < 2; ++n) {
      SCOPED_TRACE(std::string(to_string(mixer.mixer)) + " " + std::to_string(mixer.head_dim));
      expect_near_sample(found[n], expected[n], 20);
    }
  }
}

TEST_F(CudaSampledSpread, EqualsTheCpus) {
  RunShape shape;
  shape.length = 777;
  shape.heads = 3;
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position * position % 41); };
  for (const int head_dim : {16, 64, 192}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      for (const std::int64_t window : {0, 90}) {
        shape.head_dim = head_dim;
        shape.dtype = dtype;
        shape.window = window;
        shape.gated = window == 0;
        const auto run = make_run(shape);
        const int heads[] = {0, 1, 2};
        const auto expected = layer_statistics({run, std::nullopt}, 0, heads, sampling(70), {}).value();
        const auto found = layer_statistics({run, 0}, 0, heads, sampling(70), {}).value();
        for (std::size_t n = 0; n < 3; ++n) expect_near_sample(found[n], expected[n], 1);
      }
    }
  }
}

/// [L] what each key receives of the rows that were drawn, of each head.
std::vector<std::vector<double>> received_by(const RunOnDevice& run, std::span<const int> heads, RowSample& drawn) {
  std::vector<std::vector<double>> received(heads.size());
  StatisticsOptions options = sampling(70);
  options.take_rows = [&](const HeadStatistics& head, const RowSample& sample, const SampledRows& rows) {
    received[index_of(head.head)] = rows.received;
    if (head.head == 0) drawn = sample;
  };
  EXPECT_TRUE(layer_statistics(run, 0, heads, options, {}));
  return received;
}

TEST_F(CudaSampledSpread, KeysReceiveWhatTheCpuAndDenseRowsGiveThem) {
  RunShape shape;
  shape.length = 777;
  shape.heads = 3;
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position * position % 41); };
  const int heads[] = {0, 1, 2};
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const std::int64_t window : {0, 90}) {
      shape.dtype = dtype;
      shape.window = window;
      const auto run = make_run(shape);
      RowSample drawn;
      const auto found = received_by({run, 0}, heads, drawn);
      const auto expected = received_by({run, std::nullopt}, heads, drawn);
      for (std::size_t head = 0; head < 3; ++head) {
        const std::vector<double> attention = DenseHead({run, 0, static_cast<int>(head)}).entries(Quantity::attention);
        ASSERT_EQ(found[head].size(), 777U);
        for (std::size_t key = 0; key < 777; ++key) {
          double dense = 0;
          for (std::size_t n = 0; n < drawn.rows.size(); ++n) {
            const std::int64_t row = drawn.rows[n];
            const double entry = attention[index_of(row) * 777 + key];
            if (!std::isnan(entry)) dense += static_cast<double>(drawn.positions[n / 2]) / 2 * entry;
          }
          EXPECT_NEAR(found[head][key], expected[head][key], 1e-5 * std::max(1.0, dense)) << head << ' ' << key;
          EXPECT_NEAR(found[head][key], dense, 2e-5 * std::max(1.0, dense)) << head << ' ' << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::test
