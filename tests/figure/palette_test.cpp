#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "app/figure/curve_palette.h"

namespace foxscope::test {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr Matrix kSame = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
// Linear RGB as seen without green, and without red cones (Machado, Oliveira and Fernandes 2009, severity 1).
constexpr Matrix kNoGreen = {
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kNoRed = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kXyz = {{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};

Vector times(const Matrix& matrix, const Vector& vector) {
  Vector result{};
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) result[row] += matrix[row][column] * vector[column];
  }
  return result;
}

Vector linear(const figure::Rgb& colour) {
  Vector result{};
  const std::array<int, 3> parts = {colour.red, colour.green, colour.blue};
  for (int part = 0; part < 3; ++part) {
    const double value = parts[part] / 255.0;
    result[part] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return result;
}

// CIE L*a*b* under D65.
Vector lab(Vector rgb) {
  for (double& part : rgb) part = std::clamp(part, 0.0, 1.0);
  Vector xyz = times(kXyz, rgb);
  const Vector white = {0.9505, 1, 1.089};
  for (int part = 0; part < 3; ++part) {
    const double ratio = xyz[part] / white[part];
    xyz[part] = ratio > 0.008856 ? std::cbrt(ratio) : 7.787 * ratio + 16.0 / 116;
  }
  return {116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])};
}

TEST(Palette, CurvesDifferInLightnessAndForEveryKindOfSight) {
  for (int first = 0; first < figure::kCurveColours; ++first) {
    for (int second = 0; second < first; ++second) {
      const Vector a = linear(figure::curveColour(first));
      const Vector b = linear(figure::curveColour(second));
      EXPECT_GE(std::abs(lab(a)[0] - lab(b)[0]), 9) << first << " and " << second;
      for (const Matrix& sight : {kSame, kNoGreen, kNoRed}) {
        const Vector seen = lab(times(sight, a));
        const Vector other = lab(times(sight, b));
        const double distance = std::hypot(seen[0] - other[0], seen[1] - other[1], seen[2] - other[2]);
        EXPECT_GE(distance, 20) << first << " and " << second;
      }
    }
  }
}

TEST(Palette, LinesTellCurvesOfLikeLightnessApart) {
  for (int first = 0; first < figure::kCurveColours; ++first) {
    for (int second = 0; second < first; ++second) {
      if (figure::curveLine(first) != figure::curveLine(second)) continue;
      const double lightness = lab(linear(figure::curveColour(first)))[0] - lab(linear(figure::curveColour(second)))[0];
      EXPECT_GE(std::abs(lightness), 25) << first << " and " << second;
    }
  }
}

TEST(Palette, IsSeenOnWhiteAndBeginsAgain) {
  for (int index = 0; index < figure::kCurveColours; ++index) {
    EXPECT_LE(lab(linear(figure::curveColour(index)))[0], 80);
    EXPECT_EQ(figure::curveColour(index).red, figure::curveColour(index + figure::kCurveColours).red);
    EXPECT_EQ(figure::curveColour(index).blue, figure::curveColour(index - figure::kCurveColours).blue);
  }
}

}  // namespace
}  // namespace foxscope::test
