#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/pair_reading.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/map/statistics/head_statistics.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

/// Attention's statistics the plain way, from dense float64.
struct DenseStatistics {
  std::vector<double> mass;
  std::vector<double> mass_without_first;
  double entropy = 0;
  double on_first = 0;
};

DenseStatistics dense_statistics(const std::vector<double>& attention, std::size_t length) {
  DenseStatistics result;
  result.mass.resize(length);
  result.mass_without_first.resize(length);
  std::size_t counted = 0;
  for (std::size_t i = 0; i < length; ++i) {
    double beside = 0;
    for (std::size_t j = 1; j <= i; ++j) {
      if (!std::isnan(attention[i * length + j])) beside += attention[i * length + j];
    }
    counted += beside > 0 ? 1 : 0;
    for (std::size_t j = 0; j <= i; ++j) {
      const double entry = attention[i * length + j];
      if (std::isnan(entry)) continue;
      result.mass[i - j] += entry / static_cast<double>(length);
      if (entry > 0) result.entropy -= entry * std::log(entry) / static_cast<double>(length);
      if (j == 0) result.on_first += entry / static_cast<double>(length);
      if (j > 0 && beside > 0) result.mass_without_first[i - j] += entry / beside;
    }
  }
  for (double& value : result.mass_without_first) value /= static_cast<double>(counted);
  return result;
}

double reaching(const std::vector<double>& mass, double share) {
  double total = 0;
  for (std::size_t distance = 0; distance < mass.size(); ++distance) {
    if ((total += mass[distance]) >= share) return static_cast<double>(distance);
  }
  return -1;
}

void expect_attention_statistics(const HeadOf& head, const std::vector<double>& attention) {
  const auto length = static_cast<std::size_t>(head.trace->info().length);
  const DenseStatistics expected = dense_statistics(attention, length);
  const HeadStatistics actual = head_statistics(head, {}, {}).value();
  ASSERT_TRUE(actual.has_attention);
  ASSERT_EQ(actual.distance.mass.size(), length);
  ASSERT_EQ(actual.distance_without_first.mass.size(), length);
  for (std::size_t distance = 0; distance < length; ++distance) {
    EXPECT_NEAR(actual.distance.mass[distance], expected.mass[distance], 1e-6);
    EXPECT_NEAR(actual.distance_without_first.mass[distance], expected.mass_without_first[distance], 1e-6);
  }
  EXPECT_NEAR(actual.entropy, expected.entropy, 1e-6);
  EXPECT_NEAR(actual.mass_on_first, expected.on_first, 1e-6);
  EXPECT_NEAR(actual.mass_on_self, expected.mass[0], 1e-6);
  const double on_keys = 1 - actual.mass_on_sink.value_or(0);
  EXPECT_EQ(actual.distance.d50, reaching(expected.mass, 0.5 * on_keys));
  EXPECT_EQ(actual.distance.d90, reaching(expected.mass, 0.9 * on_keys));
  EXPECT_EQ(actual.distance_without_first.d50, reaching(expected.mass_without_first, 0.5));
  EXPECT_EQ(actual.distance_without_first.d90, reaching(expected.mass_without_first, 0.9));
}

void expect_attention_statistics(const HeadOf& head) {
  expect_attention_statistics(head, DenseHead(head).entries(Quantity::attention));
}

/// Of a linear mixer attention is |M| as shares of its rows.
TEST(AttentionStatistics, OfLinearMixersEqualDenseOnes) {
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, 600});
    for (int head = 0; head < mixer.heads; ++head) {
      std::vector<double> entries = dense_mixing({run, 0, head}, {0, 600});
      for (std::size_t row = 0; row < 600; ++row) {
        double sum = 0;
        for (std::size_t key = 0; key <= row; ++key) sum += std::abs(entries[row * 600 + key]);
        for (std::size_t key = 0; key <= row; ++key)
          entries[row * 600 + key] = std::abs(entries[row * 600 + key]) / sum;
      }
      SCOPED_TRACE(to_string(mixer.mixer));
      expect_attention_statistics({run, 0, head}, entries);
    }
  }
}

void check_spectrum(const LayerMixer& mixer) {
  const auto run = make_linear_run({mixer, 200});
  const HeadStatistics statistics = head_statistics({run, 0, 3}, {}, {}).value();
  const ChannelSums all = run->cumulative_log_decay(0, 3);
  const std::span<const double> sums = all.values;
  std::vector<double> times;
  double mean = 0;
  for (std::size_t n = 0; n < 5; ++n) {
    times.push_back(-199 / (sums[199 * 5 + n] - sums[n]));
    mean += (sums[199 * 5 + n] - sums[n]) / 5;
  }
  std::sort(times.begin(), times.end());
  const std::vector<double> spectrum = channel_decay_times(statistics);
  ASSERT_EQ(spectrum.size(), 5U);
  for (std::size_t n = 0; n < 5; ++n) EXPECT_NEAR(spectrum[n], times[n], 1e-9 * times[n]);
  for (std::size_t n = 0; n < 5; ++n) {
    EXPECT_NEAR(statistics.channel_log_decay[n], (sums[199 * 5 + n] - sums[n]) / 199, 1e-12);
  }
  EXPECT_NEAR(statistics.rate_decay_time, -199 / mean, 1e-9 * statistics.rate_decay_time);
}

TEST(GateStatistics, OfChannelsAreASpectrum) {
  for (const LayerMixer& mixer : {gla_mixer(5), mamba_mixer(5)}) check_spectrum(mixer);
  EXPECT_TRUE(head_statistics({make_linear_run({mamba2_mixer(), 50}), 0, 0}, {}, {})->channel_log_decay.empty());
  EXPECT_TRUE(std::isinf(head_statistics({make_linear_run({delta_mixer(), 50}), 0, 0}, {}, {})->rate_decay_time));
}

TEST(AttentionStatistics, EqualDenseOnes) {
  RunShape shape;
  shape.length = 1024;
  shape.heads = 3;
  const auto run = make_run(shape);
  for (int head = 0; head < 3; ++head) expect_attention_statistics({run, 0, head});
  shape.gated = false;
  expect_attention_statistics({make_run(shape), 0, 0});
  shape.gated = true;
  shape.window = 90;
  shape.dtype = DType::bfloat16;
  expect_attention_statistics({make_run(shape), 0, 1});
  shape.logit_cap = 0.7;
  expect_attention_statistics({make_run(shape), 0, 1});
}

TEST(AttentionStatistics, OfHeadsWithSinksCountWhatKeysHave) {
  RunShape shape;
  shape.length = 400;
  shape.heads = 3;
  shape.sinks = {-20, 0.5F, 6};
  for (const bool gated : {true, false}) {
    shape.gated = gated;
    const auto run = make_run(shape);
    for (int head = 0; head < 3; ++head) {
      const HeadOf of{run, 0, head};
      const std::vector<double> attention = DenseHead(of).entries(Quantity::attention);
      expect_attention_statistics(of, attention);
      double on_keys = 0;
      for (const double entry : attention) on_keys += std::isnan(entry) ? 0 : entry / 400;
      EXPECT_NEAR(head_statistics(of, {}, {})->mass_on_sink.value(), 1 - on_keys, 1e-6);
    }
  }
  shape.sinks = {};
  EXPECT_FALSE(head_statistics({make_run(shape), 0, 0}, {}, {})->mass_on_sink);
}

TEST(AttentionStatistics, SeeWhatIsLeftByHeadsThatParkOnTheFirstKey) {
  // Of most rows key 0 holds all but one part in 10 thousand to 10 million.
  RunShape shape;
  shape.length = 600;
  shape.gated = false;
  shape.parks_on_first = 12.0;
  expect_attention_statistics({make_run(shape), 0, 0});
  shape.parks_on_first = 20.0;
  expect_attention_statistics({make_run(shape), 0, 0});
}

TEST(AttentionStatistics, AreAbsentWhereQueriesAndKeysWereNotKept) {
  RunShape shape;
  shape.keeps_query_key = false;
  EXPECT_FALSE(head_statistics({make_run(shape), 0, 0}, {}, {}).value().has_attention);
  shape.keeps_query_key = true;
  shape.keeps_rows = false;
  EXPECT_FALSE(head_statistics({make_run(shape), 0, 0}, {}, {}).value().has_attention);
  shape.keeps_rows = true;
  StatisticsOptions options;
  options.with_attention = false;
  EXPECT_FALSE(head_statistics({make_run(shape), 0, 0}, options, {}).value().has_attention);
}

TEST(AttentionStatistics, OfOneTokenAreThoseOfItself) {
  RunShape shape;
  shape.length = 1;
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  EXPECT_NEAR(statistics.mass_on_first, 1.0, 1e-6);
  EXPECT_NEAR(statistics.mass_on_self, 1.0, 1e-6);
  EXPECT_NEAR(statistics.entropy, 0.0, 1e-6);
  EXPECT_EQ(statistics.distance.d90, 0.0);
  EXPECT_TRUE(std::isnan(statistics.distance_without_first.d50));
  EXPECT_EQ(statistics.backward_horizon[0].cut_off_share, 1.0);
  EXPECT_EQ(statistics.forward_survival[0].cut_off_share, 1.0);
}

/// log F back from a position at any distance, linear between tokens.
double log_forget_back(const std::vector<double>& c, std::size_t row, double distance) {
  const auto whole = static_cast<std::size_t>(distance);
  const double near = c[row] - c[row - whole];
  if (static_cast<double>(whole) == distance) return near;
  return near + (distance - static_cast<double>(whole)) * (c[row] - c[row - whole - 1] - near);
}

/// The farthest distance with log F at the level or above, by stepping and halving.
double slow_horizon(const std::vector<double>& c, std::size_t row, double level, bool& cut_off) {
  std::size_t whole = 0;
  while (whole + 1 <= row && c[row] - c[row - whole - 1] >= level) ++whole;
  cut_off = whole == row;
  if (cut_off) return static_cast<double>(row);
  double low = static_cast<double>(whole);
  double high = low + 1;
  for (int n = 0; n < 60; ++n) {
    const double middle = (low + high) / 2;
    (log_forget_back(c, row, middle) >= level ? low : high) = middle;
  }
  return low;
}

Quartiles slow_quartiles(std::vector<double> values, double cut_off) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) {
    const double place = p * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(place));
    const auto above = static_cast<std::size_t>(std::ceil(place));
    return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75), cut_off / static_cast<double>(values.size())};
}

void expect_equal(const Quartiles& actual, const Quartiles& expected) {
  EXPECT_NEAR(actual.lower, expected.lower, 1e-9 * (1 + expected.lower));
  EXPECT_NEAR(actual.median, expected.median, 1e-9 * (1 + expected.median));
  EXPECT_NEAR(actual.upper, expected.upper, 1e-9 * (1 + expected.upper));
  EXPECT_DOUBLE_EQ(actual.cut_off_share, expected.cut_off_share);
}

TEST(GateStatistics, HorizonsEqualThoseFoundByStepping) {
  RunShape shape;
  shape.length = 500;
  shape.heads = 3;
  shape.normalized = false;
  const auto run = make_run(shape);
  for (int head = 0; head < 3; ++head) {
    const HeadStatistics statistics = head_statistics({run, 0, head}, {false, 8}, {}).value();
    const auto gate = run->cumulative_log_gate(0, head);
    const std::vector<double> c(gate.begin(), gate.end());
    // Ahead is back in the text that is read from its end.
    std::vector<double> reversed(c.size());
    for (std::size_t n = 0; n < c.size(); ++n) reversed[n] = -c[c.size() - 1 - n];
    for (int level = 0; level < 3; ++level) {
      for (const auto& [values, actual] :
           {std::pair{&c, &statistics.backward_horizon[level]}, {&reversed, &statistics.forward_survival[level]}}) {
        std::vector<double> horizons;
        double cut = 0;
        for (std::size_t row = 0; row < c.size(); ++row) {
          bool cut_off = false;
          horizons.push_back(slow_horizon(*values, row, std::log(kHorizonLevel[level]), cut_off));
          cut += cut_off ? 1 : 0;
        }
        expect_equal(*actual, slow_quartiles(horizons, cut));
      }
    }
  }
}

TEST(GateStatistics, OfAConstantGateAreKnown) {
  RunShape shape;
  shape.length = 4001;
  shape.normalized = false;
  shape.log_gate = [](int, std::int64_t, double) { return -1.0 / 50.0; };
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {false, 3}, {}).value();
  EXPECT_NEAR(statistics.rate_decay_time, 50.0, 1e-9);
  EXPECT_NEAR(statistics.mean_log_gate, -0.02, 1e-12);
  EXPECT_NEAR(statistics.backward_horizon[0].median, 50.0, 1e-6);
  EXPECT_NEAR(statistics.backward_horizon[1].median, 50.0 * std::log(2.0), 1e-6);
  EXPECT_NEAR(statistics.forward_survival[2].median, 50.0 * std::log(100.0), 1e-6);
  for (const double gate : statistics.gate_quantile) EXPECT_NEAR(gate, std::exp(-0.02), 1e-12);
  ASSERT_EQ(statistics.strongest_events.size(), 3U);
}

TEST(GateStatistics, TheFirstGateDoesNotCount) {
  RunShape shape;
  shape.length = 3;
  shape.normalized = false;
  shape.log_gate = [](int, std::int64_t t, double) { return t == 0 ? -700.0 : -0.25; };
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {false, 3}, {}).value();
  EXPECT_NEAR(statistics.rate_decay_time, 4.0, 1e-9);
  for (const double gate : statistics.gate_quantile) EXPECT_NEAR(gate, std::exp(-0.25), 1e-12);
  EXPECT_EQ(statistics.strongest_events.size(), 2U);
  // One token has no gate that any F is made of.
  shape.length = 1;
  const HeadStatistics one = head_statistics({make_run(shape), 0, 0}, {false, 3}, {}).value();
  EXPECT_TRUE(std::isnan(one.rate_decay_time) && std::isnan(one.mean_log_gate) && std::isnan(one.gate_quantile[2]));
  EXPECT_TRUE(one.strongest_events.empty());
}

TEST(GateStatistics, HorizonsBelowOneTokenExist) {
  RunShape shape;
  shape.length = 100;
  shape.normalized = false;
  shape.log_gate = [](int, std::int64_t, double) { return -10.0; };
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {false, 0}, {}).value();
  EXPECT_NEAR(statistics.backward_horizon[0].median, 0.1, 1e-12);
  EXPECT_TRUE(statistics.strongest_events.empty());
}

TEST(GateStatistics, WithoutAGateNothingIsForgotten) {
  RunShape shape;
  shape.length = 101;
  shape.gated = false;
  shape.keeps_gates = false;
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {}, {}).value();
  EXPECT_EQ(statistics.rate_decay_time, std::numeric_limits<double>::infinity());
  EXPECT_EQ(statistics.backward_horizon[1].cut_off_share, 1.0);
  EXPECT_EQ(statistics.forward_survival[1].cut_off_share, 1.0);
  EXPECT_EQ(statistics.backward_horizon[1].median, 50.0);
  EXPECT_EQ(statistics.gate_quantile[0], 1.0);
  EXPECT_TRUE(statistics.strongest_events.empty());
}

TEST(GateStatistics, StrongestEventsComeFirstWithTheirPositions) {
  RunShape shape;
  shape.length = 300;
  shape.normalized = false;
  shape.log_gate = [](int, std::int64_t t, double) {
    if (t == 0) return -3.0;
    if (t == 200) return -1000.0;
    return t == 100 ? -5.0 : -0.001;
  };
  const HeadStatistics statistics = head_statistics({make_run(shape), 0, 0}, {false, 4}, {}).value();
  const std::int64_t expected[] = {200, 100, 1, 2};  // f_0 is in no F
  ASSERT_EQ(statistics.strongest_events.size(), 4U);
  for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(statistics.strongest_events[n].position, expected[n]);
  EXPECT_EQ(statistics.strongest_events[0].forget_gate, 0.0);
  EXPECT_NEAR(statistics.strongest_events[1].forget_gate, std::exp(-5.0), 1e-12);
  EXPECT_EQ(statistics.gate_quantile[0], 0.0);
  EXPECT_NEAR(statistics.gate_quantile[4], std::exp(-0.001), 1e-12);
}

TEST(GateStatistics, RetainedGateIsPreciseFarIntoALongText) {
  // c passes -1e5 within 100,000 tokens; the reference sums in extended precision.
  RunShape shape;
  shape.length = 100000;
  shape.head_dim = 1;
  shape.normalized = false;
  std::vector<double> log_gates;
  shape.log_gate = [&](int, std::int64_t, double normal) {
    log_gates.push_back(-2.0 * std::abs(normal));
    return log_gates.back();
  };
  const auto run = make_run(shape);
  ASSERT_LT(run->cumulative_log_gate(0, 0).back(), -1e5);
  for (const std::int64_t key : {10, 50000, 99980}) {
    long double expected = 0;
    for (std::int64_t query = key; query < key + 20; ++query) {
      if (query > key) expected += static_cast<long double>(log_gates[index_of(query)]);
      const auto exact = static_cast<double>(std::exp(expected));
      EXPECT_NEAR(pair_reading({run, 0, 0}, query, key).forget / exact, 1.0, 1e-9);
    }
  }
  shape.length = 10;
  shape.gated = false;
  EXPECT_EQ(pair_reading({make_run(shape), 0, 0}, 9, 0).forget, 1.0);
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  std::vector<double> values{4, 1, 3, 2};
  EXPECT_EQ(quantile(values, 0.0), 1.0);
  EXPECT_EQ(quantile(values, 0.25), 1.75);
  EXPECT_EQ(quantile(values, 0.5), 2.5);
  EXPECT_EQ(quantile(values, 1.0), 4.0);
}

}  // namespace
}  // namespace foxscope::test
