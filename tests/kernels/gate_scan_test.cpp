#include "kernels/cpu/gate_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/largest_error.h"

namespace foxscope::kernels::cpu {
namespace {

// Log gates that are whole multiples of 2^-40 have sums that 64-bit integers hold exactly.
constexpr double kUnit = 0x1p-40;
constexpr std::size_t kLength = 100000;
constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> exact_sums(const std::vector<std::int64_t>& units) {
  std::vector<std::int64_t> sums(units.size());
  std::partial_sum(units.begin(), units.end(), sums.begin());
  return sums;
}

/// F = exp(c_i - c_j): its relative error is the absolute error of the difference.
void expect_exact_differences(const std::vector<double>& cumulative, const std::vector<std::int64_t>& exact) {
  ASSERT_LT(cumulative.back(), -0.9e5);
  std::mt19937_64 random(1);
  double largest = 0;
  for (int pair = 0; pair < 1000000; ++pair) {
    const std::size_t i = random() % kLength;
    const std::size_t j = pair % 2 == 0 ? random() % kLength : i - std::min<std::size_t>(i, random() % 50);
    const double expected = static_cast<double>(exact[i] - exact[j]) * kUnit;
    largest = test::largest_error(largest, cumulative[i] - cumulative[j] - expected);
  }
  EXPECT_LE(largest, 1e-10);
}

TEST(CumulativeLogGate, DifferencesAreExactNearMinusHundredThousand) {
  std::mt19937_64 random(2);
  std::vector<std::int64_t> units;
  std::vector<double> log_gate;
  for (std::size_t i = 0; i < kLength; ++i) {
    units.push_back(-static_cast<std::int64_t>(random() % (std::uint64_t{1} << 41)));  // mean log f = -1
    log_gate.push_back(static_cast<double>(units.back()) * kUnit);
  }
  std::vector<double> cumulative(kLength, kUnwritten);
  cumulative_log_gate(log_gate.data(), 1, static_cast<std::int64_t>(kLength), cumulative.data());
  expect_exact_differences(cumulative, exact_sums(units));
}

TEST(CumulativeLogGate, Float32DifferencesAreExactToo) {
  std::mt19937_64 random(3);
  std::vector<std::int64_t> units;
  std::vector<float> log_gate;
  for (std::size_t i = 0; i < kLength; ++i) {
    // 2^-17 to 2 in steps that float32 holds.
    log_gate.push_back(-0x1p-17F * static_cast<float>(1 + random() % (1U << 18)));
    units.push_back(static_cast<std::int64_t>(static_cast<double>(log_gate.back()) / kUnit));
  }
  std::vector<double> cumulative(kLength, kUnwritten);
  cumulative_log_gate(log_gate.data(), 1, static_cast<std::int64_t>(kLength), cumulative.data());
  expect_exact_differences(cumulative, exact_sums(units));
}

TEST(CumulativeLogGate, KeepsSmallTermsBesideLargeOnes) {
  // Plain summation would drop each 1e-14 beside 1e3.
  std::vector<double> log_gate(100001, -1e-14);
  log_gate[0] = -1000.0;
  std::vector<double> cumulative(log_gate.size(), kUnwritten);
  cumulative_log_gate(log_gate.data(), 1, static_cast<std::int64_t>(log_gate.size()), cumulative.data());
  EXPECT_NEAR(cumulative.back() + 1000.0, -1e-9, 2e-13);
}

TEST(CumulativeLogGate, ClampsEachGateAtMinusThousand) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> log_gate = {-kInfinity, -0.5, -2000.0, -1.0, 0.0, -kInfinity};
  std::vector<double> cumulative(log_gate.size(), kUnwritten);
  cumulative_log_gate(log_gate.data(), 2, 3, cumulative.data());
  EXPECT_EQ(cumulative, (std::vector<double>{-1000.0, -1000.5, -2000.5, -1.0, -1.0, -1001.0}));
}

TEST(CumulativeLogGate, NanReachesAllLaterSumsOfItsRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> log_gate = {-1.0F, nan, -1.0F, -2.0F, -1.0F, -1.0F};
  std::vector<double> cumulative(log_gate.size(), kUnwritten);
  cumulative_log_gate(log_gate.data(), 2, 3, cumulative.data());
  EXPECT_EQ(cumulative[0], -1.0);
  EXPECT_TRUE(std::isnan(cumulative[1]) && std::isnan(cumulative[2]));
  EXPECT_EQ(cumulative[5], -4.0);
}

TEST(CumulativeLogGate, NeverRises) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> gate(-1e-12, 0.0);
  std::vector<double> log_gate(10000);
  for (std::size_t i = 0; i < log_gate.size(); ++i) log_gate[i] = i % 100 == 0 ? -50.0 : gate(random);
  std::vector<double> cumulative(log_gate.size(), kUnwritten);
  cumulative_log_gate(log_gate.data(), 1, static_cast<std::int64_t>(log_gate.size()), cumulative.data());
  EXPECT_TRUE(std::is_sorted(cumulative.rbegin(), cumulative.rend()));
}

}  // namespace
}  // namespace foxscope::kernels::cpu
