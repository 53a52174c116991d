#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "app/figure/curves/curve_palette.h"
#include "app/figure/figure_style.h"

namespace foxscope::test {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr Matrix kSame = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
// Linear RGB as seen without green, red and blue cones (Machado, Oliveira and Fernandes 2009, severity 1).
constexpr Matrix kNoGreen = {
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kNoRed = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kNoBlue = {
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
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

// CIEDE2000 (Sharma, Wu and Dalal 2005).
double difference(const Vector& a, const Vector& b) {
  const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
  const double mean = (std::hypot(a[1], a[2]) + std::hypot(b[1], b[2])) / 2;
  const auto share = [](double chroma) {
    return std::sqrt(std::pow(chroma, 7) / (std::pow(chroma, 7) + std::pow(25.0, 7)));
  };
  const double stretch = 1 + 0.5 * (1 - share(mean));
  const double chroma_a = std::hypot(a[1] * stretch, a[2]);
  const double chroma_b = std::hypot(b[1] * stretch, b[2]);
  const auto hue = [&](const Vector& lab) {
    if (lab[1] == 0 && lab[2] == 0) return 0.0;
    const double degrees = std::atan2(lab[2], lab[1] * stretch) * 180 / std::numbers::pi;
    return degrees < 0 ? degrees + 360 : degrees;
  };
  const double hue_a = hue(a);
  const double hue_b = hue(b);
  const bool grey = chroma_a * chroma_b == 0;
  double turn = grey ? 0 : hue_b - hue_a;
  if (turn > 180) turn -= 360;
  if (turn < -180) turn += 360;
  double hue_mean = hue_a + hue_b;
  if (!grey) {
    const bool near = std::abs(hue_a - hue_b) <= 180;
    hue_mean = (near ? hue_mean : hue_mean < 360 ? hue_mean + 360 : hue_mean - 360) / 2;
  }
  const double light = (a[0] + b[0]) / 2 - 50;
  const double chroma = (chroma_a + chroma_b) / 2;
  const double weight = 1 - 0.17 * std::cos(radians(hue_mean - 30)) + 0.24 * std::cos(radians(2 * hue_mean)) +
                        0.32 * std::cos(radians(3 * hue_mean + 6)) - 0.20 * std::cos(radians(4 * hue_mean - 63));
  const double by_light = (b[0] - a[0]) / (1 + 0.015 * light * light / std::sqrt(20 + light * light));
  const double by_chroma = (chroma_b - chroma_a) / (1 + 0.045 * chroma);
  const double by_hue =
      2 * std::sqrt(chroma_a * chroma_b) * std::sin(radians(turn / 2)) / (1 + 0.015 * chroma * weight);
  const double rotation = -2 * share(chroma) * std::sin(radians(60 * std::exp(-std::pow((hue_mean - 275) / 25, 2))));
  return std::sqrt(by_light * by_light + by_chroma * by_chroma + by_hue * by_hue + rotation * by_chroma * by_hue);
}

double lightness(int index) { return lab(linear(figure::curveColour(index)))[0]; }

// WCAG's contrast.
double contrast(const figure::Rgb& a, const figure::Rgb& b) {
  const auto luminance = [](const figure::Rgb& colour) { return times(kXyz, linear(colour))[1]; };
  const double first = luminance(a);
  const double second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

// Pairs of the test data of Sharma, Wu and Dalal 2005.
TEST(Palette, DifferencesAreThoseOfTheStandard) {
  EXPECT_NEAR(difference({50, 2.6772, -79.7751}, {50, 0, -82.7485}), 2.0425, 1e-4);
  EXPECT_NEAR(difference({50, 2.5, 0}, {73, 25, -18}), 27.1492, 1e-4);
  EXPECT_NEAR(difference({22.7233, 20.0904, -46.6940}, {23.0331, 14.9730, -42.5619}), 2.0373, 1e-4);
  EXPECT_NEAR(difference({90.8027, -2.0831, 1.4410}, {91.1528, -1.6435, 0.0447}), 1.4441, 1e-4);
}

TEST(Palette, CurvesDifferForEveryKindOfSightOnBothGrounds) {
  for (const figure::Ground ground : {figure::Ground::light, figure::Ground::dark}) {
    for (int first = 0; first < figure::kCurveColours; ++first) {
      for (int second = 0; second < first; ++second) {
        const Vector a = linear(figure::curveColour(first, ground));
        const Vector b = linear(figure::curveColour(second, ground));
        for (const Matrix& sight : {kSame, kNoGreen, kNoRed, kNoBlue}) {
          EXPECT_GE(difference(lab(times(sight, a)), lab(times(sight, b))), 18) << first << " and " << second;
        }
      }
    }
  }
}

TEST(Palette, GreyPrintTellsCurvesApart) {
  for (int first = 0; first < figure::kCurveColours; ++first) {
    for (int second = 0; second < first; ++second) {
      const bool alike = figure::curveLine(first) == figure::curveLine(second);
      EXPECT_GE(std::abs(lightness(first) - lightness(second)), alike ? 25 : 4.5) << first << " and " << second;
    }
  }
}

TEST(Palette, IsSeenOnBothGroundsAndBeginsAgain) {
  for (int index = 0; index < figure::kCurveColours; ++index) {
    EXPECT_GE(contrast(figure::curveColour(index), {255, 255, 255}), 3) << index;
    EXPECT_GE(contrast(figure::curveColour(index, figure::Ground::dark), {0x20, 0x22, 0x25}), 3) << index;
    EXPECT_EQ(figure::curveColour(index), figure::curveColour(index + figure::kCurveColours));
    EXPECT_EQ(figure::curveColour(index), figure::curveColour(index - figure::kCurveColours));
  }
}

TEST(Palette, ManyModelsAreToldApart) {
  const figure::FigureStyle style;
  std::set<std::tuple<int, int>> seen;
  for (std::size_t place = 0; place < 24; ++place) {
    const figure::CurveLook look = style.look("model", place);
    const int colour = look.colour % figure::kCurveColours;
    EXPECT_TRUE(seen.emplace(colour, static_cast<int>(figure::curveLine(look.colour, look.change))).second) << place;
  }
}

TEST(Palette, ChangedCopiesHaveOtherLines) {
  for (int index = 0; index < figure::kCurveColours; ++index) {
    for (int change = 1; change <= 3; ++change) EXPECT_NE(figure::curveLine(index), figure::curveLine(index, change));
    EXPECT_NE(figure::curveLine(index, 1), figure::curveLine(index, 2));
  }
}

}  // namespace
}  // namespace foxscope::test
