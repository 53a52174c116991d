#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "app/figure/page/axis_ticks.h"

namespace foxscope::test {
namespace {

using figure::linearTicks;
using figure::logarithmicTicks;
using figure::Ticks;
using figure::TickValues;

const char* const kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t place = 0; (place = text.find(from, place)) != std::string::npos; place += to.size()) {
    text.replace(place, from.size(), to);
  }
  return text;
}

// What a reader takes a label for.
double read(const std::string& label) { return std::stod(replaced(label, "−", "-")); }

double read_power(std::string label) {
  for (int digit = 0; digit < 10; ++digit) label = replaced(label, kDigits[digit], std::to_string(digit));
  EXPECT_EQ(label.substr(0, 2), "10");
  return std::pow(10, std::stod(replaced(label.substr(2), "⁻", "-")));
}

std::size_t characters(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

TEST(Ticks, LabelsReadAsTheirValues) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-9, 9);
  std::uniform_real_distribution<double> sign(-1, 1);
  for (int round = 0; round < 2000; ++round) {
    const double a = sign(random) * std::pow(10, exponent(random));
    const double b = a + std::abs(a) * std::pow(10, sign(random));
    for (const int most : {2, 5, 9}) {
      const Ticks ticks = linearTicks(a, b, most, TickValues::any);
      const double factor = ticks.factor.empty() ? 1 : read_power(ticks.factor);
      ASSERT_GE(ticks.major.size(), 1U) << a << " " << b;
      ASSERT_LE(ticks.major.size(), static_cast<std::size_t>(most));
      for (const auto& tick : ticks.major) {
        EXPECT_NEAR(read(tick.label) * factor, tick.value, 1e-6 * (b - a)) << tick.label;
        EXPECT_GE(tick.value, a - 1e-6 * (b - a));
        EXPECT_LE(tick.value, b + 1e-6 * (b - a));
      }
    }
  }
}

TEST(Ticks, LabelsOfColourBarsStayShort) {
  for (const double upper : {1e-8, 3e-4, 0.0123, 0.61, 1.0, 37.0, 999.0, 12345.0, 1e6}) {
    for (const double lower : {0.0, -upper}) {
      for (int most = 3; most <= 9; ++most) {
        for (const auto& tick : linearTicks(lower, upper, most, TickValues::any).major) {
          EXPECT_LE(characters(tick.label), lower < 0 ? 5U : 4U) << tick.label;
        }
      }
    }
  }
}

TEST(Ticks, PositionsAreWhole) {
  const Ticks few = linearTicks(7, 9, 9, TickValues::whole);
  ASSERT_EQ(few.major.size(), 3U);
  EXPECT_EQ(few.major[0].label, "7");
  EXPECT_TRUE(few.minor.empty());
  const Ticks one = linearTicks(65535, 65535, 9, TickValues::whole);
  ASSERT_EQ(one.major.size(), 1U);
  EXPECT_EQ(one.major[0].label, "65535");
  for (const double value : linearTicks(0, 65535, 8, TickValues::whole).minor) EXPECT_EQ(value, std::round(value));
}

TEST(Ticks, ZeroHasNoSign) {
  for (const auto& tick : linearTicks(-0.3, 0.3, 7, TickValues::any).major)
    EXPECT_NE(tick.label.find_first_of("0123"), 0U - 1);
  const Ticks ticks = linearTicks(-1, 1, 3, TickValues::any);
  ASSERT_EQ(ticks.major.size(), 3U);
  EXPECT_EQ(ticks.major[0].label, "−1");
  EXPECT_EQ(ticks.major[1].label, "0");
}

TEST(Ticks, LogarithmicLabelsArePowersOfTen) {
  const Ticks ticks = logarithmicTicks(1e-4, 1, 9);
  ASSERT_EQ(ticks.major.size(), 5U);
  for (const auto& tick : ticks.major) EXPECT_NEAR(read_power(tick.label) / tick.value, 1, 1e-9);
  EXPECT_EQ(ticks.minor.size(), 4U * 8U);
  const Ticks sparse = logarithmicTicks(1e-12, 1, 4);
  EXPECT_LE(sparse.major.size(), 4U);
  EXPECT_GE(sparse.major.size(), 3U);
}

std::string labels_of(const Ticks& ticks) {
  std::string text;
  for (const auto& tick : ticks.major) text += (text.empty() ? "" : " ") + tick.label;
  return text;
}

TEST(Ticks, PowersOfTenNearOneAreWrittenOut) {
  EXPECT_EQ(labels_of(logarithmicTicks(1, 1000, 9)), "1 10 100 1000");
  EXPECT_EQ(labels_of(logarithmicTicks(0.01, 10000, 9)), "0.01 0.1 1 10 100 1000 10000");
  EXPECT_EQ(labels_of(logarithmicTicks(1, 100000, 9)), "10⁰ 10¹ 10² 10³ 10⁴ 10⁵");
}

TEST(Ticks, OneDecadeIsDividedAsOftenAsThereIsRoom) {
  EXPECT_EQ(labels_of(logarithmicTicks(128, 8192, 9)), "200 500 1000 2000 5000");
  EXPECT_EQ(labels_of(logarithmicTicks(128, 8192, 4)), "300 1000 3000");
  EXPECT_EQ(labels_of(logarithmicTicks(128, 8192, 2)), "200 2000");
}

TEST(Ticks, LessThanADecadeStillHasLabels) {
  for (const auto& [lower, upper] : {std::pair{1.5, 9.0}, {30.0, 80.0}, {101.0, 119.0}, {2e-7, 3e-7}}) {
    const Ticks ticks = logarithmicTicks(lower, upper, 6);
    const double factor = ticks.factor.empty() ? 1 : read_power(ticks.factor);
    ASSERT_GE(ticks.major.size(), 2U) << lower;
    for (const auto& tick : ticks.major) EXPECT_NEAR(read(tick.label) * factor / tick.value, 1, 1e-6) << tick.label;
  }
}

}  // namespace
}  // namespace foxscope::test
