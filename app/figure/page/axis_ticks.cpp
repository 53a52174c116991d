#include "app/figure/page/axis_ticks.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include <fmt/format.h>

#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

// Decimal exponents of a scale's larger end whose numbers are written out; others get a common factor.
constexpr int kLeastExponent = -1;
constexpr int kMostExponent = 3;
constexpr int kDigitsOfChosen = 6;  ///< of a tick that was asked for
constexpr double kSlack = 1e-9;     ///< of a step: a limit that is a tick but for rounding
// Powers of ten that a logarithmic axis writes out.
constexpr int kLeastWritten = -2;
constexpr int kMostWritten = 4;

const char* const kSuperscripts[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};

// A number with a true minus sign; "-0" is 0.
std::string tickNumber(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return value < 0 && !zero ? "−" + text : text;
}

/// A step of 1, 2 or 5 times a power of ten.
struct Step {
  int mantissa = 1;
  int exponent = 0;
  [[nodiscard]] double size() const { return mantissa * std::pow(10.0, exponent); }
  [[nodiscard]] int parts() const { return mantissa == 2 ? 4 : 5; }  ///< minor steps in it
};

int multiplesWithin(double step, double lower, double upper) {
  return static_cast<int>(std::floor(upper / step + kSlack) - std::ceil(lower / step - kSlack)) + 1;
}

// The smallest step that gives no more ticks than this.
Step stepFor(double lower, double upper, int most) {
  assert(lower < upper && most > 0);
  Step step{1, static_cast<int>(std::floor(std::log10((upper - lower) / most)))};
  while (true) {
    for (const int mantissa : {1, 2, 5}) {
      step.mantissa = mantissa;
      if (multiplesWithin(step.size(), lower, upper) <= most) return step;
    }
    ++step.exponent;
  }
}

std::vector<double> multiples(double step, double lower, double upper) {
  std::vector<double> values;
  const double first = std::ceil(lower / step - kSlack);
  const int count = multiplesWithin(step, lower, upper);
  values.reserve(static_cast<std::size_t>(std::max(0, count)));
  for (int index = 0; index < count; ++index) values.push_back((first + index) * step);
  return values;
}

std::vector<double> multiplesOfPowers(std::initializer_list<int> factors, double lower, double upper) {
  assert(lower > 0 && lower <= upper);
  std::vector<double> values;
  const int last = static_cast<int>(std::ceil(std::log10(upper)));
  for (int exponent = static_cast<int>(std::floor(std::log10(lower))); exponent <= last; ++exponent) {
    for (const int factor : factors) {
      const double value = factor * std::pow(10.0, exponent);
      if (value >= lower * (1 - kSlack) && value <= upper * (1 + kSlack)) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::string powerOfTen(int exponent) {
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += kSuperscripts[digit - '0'];
  return text;
}

std::string writtenNumber(double value, int digits) {
  std::string text = fmt::format("{:.{}g}", std::abs(value), digits);
  if (const std::size_t mark = text.find('e'); mark != std::string::npos) {
    const std::string mantissa = text.substr(0, mark);
    text = (mantissa == "1" ? std::string() : mantissa + " × ") + powerOfTen(std::stoi(text.substr(mark + 1)));
  }
  return value < 0 ? "−" + text : text;
}

Ticks linearTicks(double lower, double upper, int most, TickValues values) {
  Ticks ticks;
  if (!(lower < upper)) {
    ticks.major.push_back({lower, tickNumber(lower, 0)});
    return ticks;
  }
  Step step = stepFor(lower, upper, most);
  if (values == TickValues::whole && step.exponent < 0) step = {1, 0};
  const double largest = std::max(std::abs(lower), std::abs(upper));
  const int magnitude = static_cast<int>(std::floor(std::log10(largest)));
  int exponent = 0;
  if (values == TickValues::any && (magnitude < kLeastExponent || magnitude > kMostExponent)) {
    exponent = magnitude;
    ticks.factor = powerOfTen(exponent);
  }
  const int decimals = std::max(0, exponent - step.exponent);
  const double unit = std::pow(10.0, exponent);
  for (const double value : multiples(step.size(), lower, upper)) {
    ticks.major.push_back({value, tickNumber(value / unit, decimals)});
  }
  if (values == TickValues::any || step.exponent > 0 || step.mantissa == 5) {
    ticks.minor = multiples(step.size() / step.parts(), lower, upper);
  }
  return ticks;
}

Ticks logarithmicTicks(double lower, double upper, int most) {
  Ticks ticks;
  const auto decades = multiplesOfPowers({1}, lower, upper);
  if (decades.size() >= 2) {
    const auto count = static_cast<int>(decades.size());
    const int every = (count + std::max(1, most) - 1) / std::max(1, most);
    const auto exponentOf = [](double value) { return static_cast<int>(std::lround(std::log10(value))); };
    const bool written = exponentOf(decades.front()) >= kLeastWritten && exponentOf(decades.back()) <= kMostWritten;
    for (int index = 0; index < count; index += every) {
      const double value = decades[index_of(index)];
      const int exponent = exponentOf(value);
      ticks.major.push_back({value, written ? tickNumber(value, std::max(0, -exponent)) : powerOfTen(exponent)});
    }
    ticks.minor = every == 1 ? multiplesOfPowers({2, 3, 4, 5, 6, 7, 8, 9}, lower, upper) : decades;
    return ticks;
  }
  ticks = linearTicks(lower, upper, most, TickValues::any);
  if (!ticks.factor.empty()) return ticks;
  for (const std::initializer_list<int> factors : {std::initializer_list<int>{1, 2, 5}, {1, 3}, {2}}) {
    const auto steps = multiplesOfPowers(factors, lower, upper);
    if (steps.size() < 2 || static_cast<int>(steps.size()) > most) continue;
    ticks.major.clear();
    for (const double value : steps) {
      ticks.major.push_back(
          {value, tickNumber(value, std::max(0, static_cast<int>(-std::floor(std::log10(value) + kSlack))))});
    }
    ticks.minor = multiplesOfPowers({1, 2, 3, 4, 5, 6, 7, 8, 9}, lower, upper);
    break;
  }
  return ticks;
}

Ticks ticksAt(const std::vector<double>& values, double lower, double upper) {
  Ticks ticks;
  for (const double value : values) {
    if (value < lower || value > upper) continue;
    ticks.major.push_back({value, writtenNumber(value, kDigitsOfChosen)});
  }
  std::sort(ticks.major.begin(), ticks.major.end(), [](const Tick& a, const Tick& b) { return a.value < b.value; });
  return ticks;
}

}  // namespace foxscope::figure
