#include "app/figure/curves/curve_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "app/figure/curves/curve_limits.h"

namespace foxscope::test {
namespace {

using figure::AxisScale;
using figure::CurvePoint;
using figure::PlotArea;
using figure::Stroke;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

PlotArea area(double xUpper, double yLower, double yUpper) {
  PlotArea area;
  area.left = 10;
  area.right = 110;
  area.top = 20;
  area.bottom = 70;
  area.x = {0, xUpper};
  area.y = {yLower, yUpper};
  return area;
}

TEST(CurveGeometry, ValuesGoToTheirPlaces) {
  const PlotArea plot = area(10, -1, 1);
  EXPECT_EQ(plot.at(0, -1), (CurvePoint{10, 70}));
  EXPECT_EQ(plot.at(10, 1), (CurvePoint{110, 20}));
  EXPECT_EQ(plot.at(5, 0), (CurvePoint{60, 45}));
  EXPECT_NEAR(figure::axisPosition(10, {1, 100}, AxisScale::logarithmic), 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(figure::axisPosition(0, {1, 100}, AxisScale::logarithmic)));
}

TEST(CurveGeometry, PointsHaveMoreRoomAtTheEndsThanLines) {
  figure::CurvePlot plot;
  figure::Curve& curve = plot.curves.emplace_back();
  curve.x = {0, 1, 2};
  curve.y = {1, 20, 608};
  for (const AxisScale scale : {AxisScale::linear, AxisScale::logarithmic}) {
    plot.yScale = scale;
    for (const auto& [line, highest] : {std::pair(figure::LineStyle::solid, 0.97), {figure::LineStyle::points, 0.94}}) {
      curve.line = line;
      const auto limits = figure::limitsOfY(plot);
      EXPECT_LT(figure::axisPosition(608, limits, scale), highest);
      EXPECT_GT(figure::axisPosition(1, limits, scale), 1 - highest);
    }
  }
}

TEST(CurveGeometry, GapsBreakTheLineAndLonePointsStay) {
  const std::vector<double> x = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<double> y = {0, 1, kGap, 1, kGap, 0, std::numeric_limits<double>::infinity(), 1, 0};
  const auto strokes = strokesOf(x, y, area(8, 0, 1), 0.01);
  ASSERT_EQ(strokes.size(), 4U);
  EXPECT_EQ(strokes[0].size(), 2U);
  EXPECT_EQ(strokes[1].size(), 1U);
  EXPECT_EQ(strokes[2].size(), 1U);
  EXPECT_EQ(strokes[3].size(), 2U);
}

TEST(CurveGeometry, ALogarithmicAxisLeavesOutZero) {
  PlotArea plot = area(100, 0, 1);
  plot.x = {1, 100};
  plot.xScale = AxisScale::logarithmic;
  const std::vector<double> x = {0, 1, 10, 100};
  const std::vector<double> y = {1, 1, 1, 1};
  const auto strokes = strokesOf(x, y, plot, 0.01);
  ASSERT_EQ(strokes.size(), 1U);
  EXPECT_EQ(strokes[0].front().x, 10);
  EXPECT_EQ(strokes[0].back().x, 110);
}

TEST(CurveGeometry, NothingLeavesTheArea) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> x;
  std::vector<double> y;
  for (int index = -200; index < 400; ++index) {
    x.push_back(index);
    y.push_back(2 * normal(random));
  }
  const PlotArea plot = area(200, -1, 1);
  const auto strokes = strokesOf(x, y, plot, 0.1);
  EXPECT_GT(strokes.size(), 10U);
  for (const Stroke& stroke : strokes) {
    for (const CurvePoint& point : stroke) {
      EXPECT_GE(point.x, plot.left - 1e-9);
      EXPECT_LE(point.x, plot.right + 1e-9);
      EXPECT_GE(point.y, plot.top - 1e-9);
      EXPECT_LE(point.y, plot.bottom + 1e-9);
    }
  }
}

TEST(CurveGeometry, CutsAreOnTheLine) {
  // From below the area to above it: enters and leaves where y = x says.
  const std::vector<double> x = {0, 10};
  const std::vector<double> y = {-5, 15};
  const auto strokes = strokesOf(x, y, area(10, 0, 10), 0.1);
  ASSERT_EQ(strokes.size(), 1U);
  ASSERT_EQ(strokes[0].size(), 2U);
  EXPECT_NEAR(strokes[0][0].x, 10 + 25, 1e-9);
  EXPECT_NEAR(strokes[0][0].y, 70, 1e-9);
  EXPECT_NEAR(strokes[0][1].x, 10 + 75, 1e-9);
  EXPECT_NEAR(strokes[0][1].y, 20, 1e-9);
}

TEST(CurveGeometry, ALongCurveIsThinnedToWhatColumnsShow) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  constexpr int kLength = 65536;
  std::vector<double> x(kLength);
  std::vector<double> y(kLength);
  for (int index = 0; index < kLength; ++index) {
    x[index] = index;
    y[index] = normal(random);
  }
  const PlotArea plot = area(kLength - 1, -10, 10);
  const double column = 0.25;
  const auto strokes = strokesOf(x, y, plot, column);
  ASSERT_EQ(strokes.size(), 1U);
  EXPECT_LE(strokes[0].size(), 4U * 402U);
  std::map<int, std::pair<double, double>> expected;
  std::map<int, std::pair<double, double>> found;
  const auto widen = [&](std::map<int, std::pair<double, double>>& columns, const CurvePoint& point) {
    const auto [place, fresh] = columns.try_emplace(static_cast<int>(std::floor(point.x / column)), point.y, point.y);
    place->second.first = std::min(place->second.first, point.y);
    place->second.second = std::max(place->second.second, point.y);
  };
  for (int index = 0; index < kLength; ++index) widen(expected, plot.at(x[index], y[index]));
  for (const CurvePoint& point : strokes[0]) widen(found, point);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace foxscope::test
