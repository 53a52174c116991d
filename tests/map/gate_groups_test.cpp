#include "backend/map/statistics/gate_groups.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "backend/map/statistics/gate_statistics.h"
#include "backend/trace/decay_time.h"

namespace foxscope::test {
namespace {

/// Gates between nearly 0 and nearly 1, and groups: bit 0 for all, bit 1 for every third, bit 2 for none.
struct Gates {
  std::vector<double> log_gate;
  std::vector<double> c;
  std::vector<std::uint8_t> groups;
};

Gates random_gates(std::size_t length) {
  Gates gates;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(1.0, 3.0);
  double sum = 0;
  for (std::size_t t = 0; t < length; ++t) {
    gates.log_gate.push_back(-std::log1p(std::exp(-normal(random))));
    gates.c.push_back(sum += gates.log_gate.back());
    gates.groups.push_back(t % 3 == 0 ? 3 : 1);
  }
  return gates;
}

/// -log f of a quantile found in the tally, against that of the sorted values.
void expect_quantile(double f, std::vector<double> log_gates, double p) {
  for (double& value : log_gates) value = std::exp(value);
  EXPECT_NEAR(std::log(f) / std::log(quantile(log_gates, p)), 1.0, 0.045);
}

void expect_group(const GateTally& tally, const std::vector<double>& log_gates) {
  const GateGroup group = tally.summary();
  double sum = 0;
  std::int64_t below_half = 0;
  for (const double value : log_gates) {
    sum += value;
    below_half += std::exp(value) < 0.5 ? 1 : 0;
  }
  const auto count = static_cast<double>(log_gates.size());
  EXPECT_EQ(group.count, static_cast<std::int64_t>(log_gates.size()));
  EXPECT_NEAR(group.mean_log_gate, sum / count, 1e-9);
  EXPECT_EQ(group.share_below_half, static_cast<double>(below_half) / count);
  expect_quantile(group.lower_quartile, log_gates, 0.25);
  expect_quantile(group.median, log_gates, 0.5);
  expect_quantile(group.upper_quartile, log_gates, 0.75);
}

TEST(GateGroups, EqualSortedGatesOfTheirPositions) {
  const Gates gates = random_gates(5000);
  const auto tallies = tally_gates(gates.c, gates.groups, 3);
  ASSERT_EQ(tallies.size(), 3U);
  expect_group(tallies[0], gates.log_gate);
  std::vector<double> every_third;
  for (std::size_t t = 0; t < gates.log_gate.size(); t += 3) every_third.push_back(gates.log_gate[t]);
  expect_group(tallies[1], every_third);
  EXPECT_EQ(tallies[2].summary().count, 0);
  EXPECT_TRUE(std::isnan(tallies[2].summary().median));
}

TEST(GateGroups, QuartilesOfFewAreBetweenOrderStatistics) {
  // f[4] = exp(-0.0527) and f[5] = exp(-0.1092) from above: numpy.quantile gives exp(-0.08055).
  const std::vector<double> ten = {-0.001, -0.003, -0.01, -0.02, -0.0527, -0.1092, -0.3, -0.9, -2.5, -7.0};
  GateTally tally;
  for (const double value : ten) tally.add(value);
  EXPECT_NEAR(-std::log(tally.summary().median) / 0.08055, 1.0, 0.045);
  expect_group(tally, ten);
  // Every count, with gates far from each other.
  for (std::size_t count = 1; count <= 40; ++count) {
    const std::vector<double> log_gates = random_gates(count).log_gate;
    GateTally few;
    for (const double value : log_gates) few.add(value);
    SCOPED_TRACE(count);
    expect_group(few, log_gates);
  }
}

TEST(GateGroups, PartsAddUpToTheWhole) {
  const Gates gates = random_gates(1000);
  GateTally whole, parts;
  for (const double value : gates.log_gate) whole.add(value);
  GateTally first, second;
  for (std::size_t t = 0; t < gates.log_gate.size(); ++t) (t < 300 ? first : second).add(gates.log_gate[t]);
  parts.add(first);
  parts.add(GateTally());
  parts.add(second);
  EXPECT_EQ(parts.count(), whole.count());
  EXPECT_NEAR(parts.sum_log_gate(), whole.sum_log_gate(), 1e-9);
  EXPECT_EQ(parts.below_half(), whole.below_half());
  EXPECT_EQ(parts.summary().median, whole.summary().median);
}

TEST(GateGroups, AGateThatIsNotANumberMakesNoneOfItsGroup) {
  const Gates gates = random_gates(900);
  std::vector<double> c = gates.c;
  std::fill(c.begin() + 450, c.end(), std::nan(""));
  std::vector<std::uint8_t> halves(900, 2);
  std::fill(halves.begin(), halves.begin() + 450, std::uint8_t{1});
  const auto clean = tally_gates(gates.c, halves, 2);
  const auto spoiled = tally_gates(c, halves, 2);
  EXPECT_EQ(spoiled[0].summary().median, clean[0].summary().median);
  EXPECT_EQ(spoiled[1].summary().count, 450);
  for (const double GateGroup::*number : {&GateGroup::mean_log_gate, &GateGroup::lower_quartile, &GateGroup::median,
                                          &GateGroup::upper_quartile, &GateGroup::share_below_half}) {
    EXPECT_TRUE(std::isnan(spoiled[1].summary().*number));
  }
}

TEST(GateGroups, GatesOfOneHalfAreNotBelowIt) {
  // c of a constant gate of 0.5, whose differences rounding puts to either side.
  std::vector<double> half, less;
  for (int n = 1; n <= 5000; ++n) {
    half.push_back((n == 1 ? -3000.1 : half.back()) + std::log(0.5));
    less.push_back((n == 1 ? -3000.1 : less.back()) + std::log(0.499999));
  }
  std::vector<std::uint8_t> groups(5000, 1);
  groups[0] = 0;
  EXPECT_EQ(tally_gates(half, groups, 1)[0].summary().share_below_half, 0.0);
  EXPECT_EQ(tally_gates(less, groups, 1)[0].summary().share_below_half, 1.0);
}

TEST(GateGroups, ExtremesAreWhatTheyAre) {
  GateTally open, shut;
  for (int n = 0; n < 10; ++n) open.add(0.0);
  for (int n = 0; n < 10; ++n) shut.add(-1000.0);
  EXPECT_EQ(open.summary().lower_quartile, 1.0);
  EXPECT_EQ(open.summary().share_below_half, 0.0);
  EXPECT_LT(shut.summary().upper_quartile, 1e-300);
  EXPECT_EQ(shut.summary().share_below_half, 1.0);
}

}  // namespace
TEST(MeanLogGate, LeavesOutGatesThatAreCut) {
  const std::vector<double> c = {-2.0, -2.5, -1002.5, -1003.0, -1003.5};
  EXPECT_NEAR(mean_log_gate(c), -0.5, 1e-12);
  const std::vector<double> cut = {-1000.0, -2000.0, -3000.0};
  EXPECT_EQ(mean_log_gate(cut), kLowestLogGate);
}

}  // namespace foxscope::test
