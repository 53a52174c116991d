#pragma once

#include <string>
#include <vector>

namespace foxscope::figure {

struct Tick {
  double value = 0;
  std::string label;
};

/// The ticks of an axis.
struct Ticks {
  std::vector<Tick> major;    ///< with labels, ascending
  std::vector<double> minor;  ///< without
  std::string factor;         ///< "10⁻⁷" where labels are to be multiplied by that, else empty
};

enum class TickValues { any, whole };

/// "10⁻⁷"
std::string powerOfTen(int exponent);

/// A number as paper has it, of so many digits: "0.25", "−3", "1.2 × 10⁻⁶", "10⁻⁶".
std::string writtenNumber(double value, int digits);

/// Ticks at multiples of 1, 2 or 5 times a power of ten within [lower, upper]; `most`, at least 2, limits the labels.
/// Where the limits include 0, labels have at most four digits, point and sign included five characters;
/// whole numbers are written out. Limits that are equal give one tick.
Ticks linearTicks(double lower, double upper, int most, TickValues values);

/// Ticks at powers of ten within [lower, upper], 0 < lower < upper, written out from 0.01 to 10000; where there are
/// fewer than two, at 1, 2 and 5, at 1 and 3 or at 2 times powers of ten, and where that gives none, those of a linear
/// axis.
Ticks logarithmicTicks(double lower, double upper, int most);

/// Ticks at those of the values that lie within [lower, upper], with as many decimals as they need.
Ticks ticksAt(const std::vector<double>& values, double lower, double upper);

}  // namespace foxscope::figure
