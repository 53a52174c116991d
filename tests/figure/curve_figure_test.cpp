#include "app/figure/curves/curve_figure.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "app/figure/curves/curve_palette.h"
#include "tests/error_of.h"
#include "tests/figure/random_run.h"
#include "tests/figure/rendering.h"

namespace foxscope::test {
namespace {

using figure::Curve;
using figure::CurveFigure;
using figure::FigureFormat;
using Kind = figure::FigureFormat::Kind;

constexpr Kind kKinds[] = {Kind::png, Kind::svg, Kind::pdf};

Curve curve(const std::function<double(double)>& value, int length, int colour) {
  Curve made;
  made.name = "curve " + std::to_string(colour);
  made.colour = colour;
  for (int index = 0; index < length; ++index) {
    made.x.push_back(index);
    made.y.push_back(value(index));
  }
  return made;
}

CurveFigure figure_of(std::vector<Curve> curves) {
  CurveFigure figure;
  figure.title = "Loss of two models";
  figure.xLabel = "position (token)";
  figure.yLabel = "loss (nats)";
  figure.curves = std::move(curves);
  figure.command = "foxscope figure <loss>";
  return figure;
}

bool looks_like(QRgb pixel, int index) {
  const figure::Rgb colour = figure::curveColour(index);
  return std::abs(qRed(pixel) - colour.red) < 12 && std::abs(qGreen(pixel) - colour.green) < 12 &&
         std::abs(qBlue(pixel) - colour.blue) < 12;
}

// Columns of the axes in which this colour is seen.
std::vector<bool> columns_with(const QImage& page, int index) {
  const QRect axes = raster_of(page);
  std::vector<bool> seen;
  for (int x = axes.left(); x <= axes.right(); ++x) {
    bool found = false;
    for (int y = axes.top(); y <= axes.bottom(); ++y) found = found || looks_like(page.pixel(x, y), index);
    seen.push_back(found);
  }
  return seen;
}

double share(const std::vector<bool>& columns, double from, double to) {
  const auto size = static_cast<double>(columns.size());
  int count = 0;
  int all = 0;
  for (auto place = static_cast<std::size_t>(from * size); place < static_cast<std::size_t>(to * size); ++place) {
    ++all;
    count += columns[place] ? 1 : 0;
  }
  return static_cast<double>(count) / all;
}

TEST(CurveFigure, ACurveIsSeenInEveryColumnAndNotInItsGap) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto shown = curve([&](double x) { return x >= 400 && x < 600 ? nan : std::sin(x / 50); }, 1000, 0);
  shown.name = "";
  const auto figure = figure_of({shown});
  for (const Kind kind : kKinds) {
    const auto columns = columns_with(rendered(drawCurves(figure, {.kind = kind}), kind, 300), 0);
    EXPECT_GT(share(columns, 0.01, 0.39), 0.99);
    EXPECT_EQ(share(columns, 0.41, 0.59), 0);
    EXPECT_GT(share(columns, 0.61, 0.99), 0.99);
  }
}

TEST(CurveFigure, ALinePassesThroughItsValues) {
  auto shown = curve([](double x) { return x; }, 11, 2);
  shown.name = "";
  auto figure = figure_of({shown});
  figure.yLimits = figure::AxisLimits{0, 10};
  const QImage page = rendered(drawCurves(figure, {.kind = Kind::pdf}), Kind::pdf, 300);
  const QRect axes = raster_of(page);
  for (const double part : {0.1, 0.35, 0.8}) {
    const QPoint place(axes.left() + static_cast<int>(part * axes.width()),
                       axes.bottom() - static_cast<int>(part * axes.height()));
    EXPECT_TRUE(looks_like(page.pixel(place), 2)) << part;
  }
}

TEST(CurveFigure, TheLegendCoversNoCurve) {
  // Curves that go through all four corners.
  auto up = curve([](double x) { return x; }, 500, 0);
  auto down = curve([](double x) { return 499 - x; }, 500, 1);
  auto figure = figure_of({up, down});
  const auto named = rendered(drawCurves(figure, {}), Kind::png, 300);
  for (const int index : {0, 1}) EXPECT_GT(share(columns_with(named, index), 0.01, 0.99), 0.99) << index;
  // Here a corner is free: the axes are used in full.
  figure.curves = {up};
  const QImage page = rendered(drawCurves(figure, {}), Kind::png, 300);
  const QRect axes = raster_of(page);
  int highest = axes.bottom();
  for (int y = axes.bottom(); y >= axes.top(); --y) {
    if (looks_like(page.pixel(axes.right() - 8, y), 0)) highest = y;
  }
  EXPECT_LT(highest - axes.top(), 0.1 * axes.height());
}

TEST(CurveFigure, UnderChosenLimitsTheLegendCoversLeast) {
  // Dense on the right, a single slope through the left: the legend goes where less is hidden.
  auto figure = figure_of({curve([](double x) { return x < 600 ? x / 300 - 1 : std::sin(x * x); }, 1000, 0)});
  figure.yLimits = figure::AxisLimits{-1, 1};
  figure.curves[0].name = "a curve with a long name";
  const QImage page = rendered(drawCurves(figure, {}), Kind::png, 300);
  EXPECT_GT(share(columns_with(page, 0), 0.61, 0.99), 0.99);
  const std::string text = in_file(drawCurves(figure, {.kind = Kind::pdf}), ".pdf");
  const std::string boxes = output_of("pdftotext -bbox " + text + " -");
  const std::string before = boxes.substr(0, boxes.find(">long<"));
  EXPECT_LT(std::stod(before.substr(before.rfind("xMax=\"") + 6)), 396 * 0.6) << boxes;
}

TEST(CurveFigure, LimitsCutTheCurve) {
  auto shown = curve([](double x) { return x; }, 100, 0);
  shown.name = "";
  auto figure = figure_of({shown});
  figure.yLimits = figure::AxisLimits{0, 50};
  for (const Kind kind : kKinds) {
    const QImage page = rendered(drawCurves(figure, {.kind = kind}), kind, 300);
    const auto columns = columns_with(page, 0);
    EXPECT_GT(share(columns, 0.01, 0.49), 0.99);
    EXPECT_EQ(share(columns, 0.53, 1), 0);
    const QRect axes = raster_of(page);
    for (int x = axes.left(); x < axes.right(); ++x) {
      for (int y = 0; y < axes.top() - 8; ++y) ASSERT_FALSE(looks_like(page.pixel(x, y), 0)) << x << " " << y;
    }
  }
}

TEST(CurveFigure, TextsAreInThePdf) {
  auto first = curve([](double x) { return x; }, 1500, 0);
  first.rawY = first.y;
  auto second = curve([](double x) { return 1500 - x; }, 1500, 1);
  second.line = figure::LineStyle::dashed;
  auto figure = figure_of({first, second});
  figure.markers = {{1024, "training length"}, {99999, "elsewhere"}};
  figure.runs = {random_run(20)};
  const std::string path = in_file(drawCurves(figure, {.kind = Kind::pdf}), ".pdf");
  const std::string text = output_of("pdftotext -layout " + path + " -");
  for (const char* word : {"Loss of two models", "position (token)", "curve 0", "curve 1", "training length", "1000"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  }
  EXPECT_EQ(text.find("elsewhere"), std::string::npos);
  const std::string info = output_of("pdfinfo " + path);
  for (const char* word :
       {"Title:           Loss of two models", "curve: curve 0", "model: random", "command: foxscope figure <loss>"}) {
    EXPECT_NE(info.find(word), std::string::npos) << word << " in " << info;
  }
  EXPECT_EQ(output_of("pdffonts " + path).find("Type 3"), std::string::npos);
}

TEST(CurveFigure, TheLegendLeavesTheMarkersLabelFree) {
  // Noise everywhere, so that the legend needs room above; the label is black on white there as in a figure without.
  auto noise = [](double x) { return std::sin(x * x); };
  auto figure = figure_of({curve(noise, 3000, 0), curve(noise, 3000, 1)});
  figure.markers = {{1500, "training length"}};
  const std::string path = in_file(drawCurves(figure, {.kind = Kind::pdf, .widthMm = 67, .fontSizePt = 7}), ".pdf");
  const std::string boxes = output_of("pdftotext -bbox " + path + " -");
  const auto bottom_or_top = [&](const std::string& word, const std::string& side) {
    const std::string before = boxes.substr(0, boxes.find(">" + word + "<"));
    const std::string line = before.substr(before.rfind("<word"));
    return std::stod(line.substr(line.find(side + "=\"") + side.size() + 2));
  };
  EXPECT_LE(bottom_or_top("training", "yMax"), bottom_or_top("curve", "yMin") + 2) << boxes;
}

TEST(CurveFigure, TheLegendLeavesTheMarkersLineFree) {
  // The curve leaves the corner above free for the legend, but the line stands there: it reaches from top to bottom.
  auto figure = figure_of({curve([](double) { return 0.0; }, 1001, 0)});
  figure.markers = {{950, ""}};
  figure.yLimits = figure::AxisLimits{-1, 4};
  const QImage page = rendered(drawCurves(figure, {.kind = Kind::pdf}), Kind::pdf, 300);
  const QRect axes = raster_of(page);
  const int column = axes.left() + static_cast<int>(0.95 * axes.width());
  for (int part = 0; part < 10; ++part) {
    int grey = 0;
    for (int y = axes.top() + part * axes.height() / 10; y < axes.top() + (part + 1) * axes.height() / 10; ++y) {
      for (int x = column - 4; x <= column + 4; ++x) grey += qGray(page.pixel(x, y)) < 160 ? 1 : 0;
    }
    EXPECT_GT(grey, axes.height() / 20) << part;
  }
}

TEST(CurveFigure, PointsOfEveryShapeStandAtTheirValues) {
  // The share of the square around a point that is filled tells shapes apart.
  using enum figure::PointShape;
  std::vector<double> filled;
  for (const figure::PointShape shape : {disc, square, triangle, diamond}) {
    Curve one;
    one.x = {0, 5, 10};
    one.y = {0, 5, 10};
    one.line = figure::LineStyle::points;
    one.shape = shape;
    auto figure = figure_of({one});
    figure.yLimits = figure::AxisLimits{0, 10};
    const QImage page = rendered(drawCurves(figure, {.kind = Kind::pdf, .lineWidthPt = 8.0}), Kind::pdf, 300);
    const QRect axes = raster_of(page);
    const QRect around(axes.center().x() - 60, axes.center().y() - 60, 121, 121);
    int dots = 0;
    QRect covered;
    for (int y = around.top(); y <= around.bottom(); ++y) {
      for (int x = around.left(); x <= around.right(); ++x) {
        if (!looks_like(page.pixel(x, y), 0)) continue;
        ++dots;
        covered |= QRect(x, y, 1, 1);
      }
    }
    EXPECT_TRUE(covered.adjusted(8, 8, -8, -8).contains(axes.center()));
    filled.push_back(static_cast<double>(dots) / covered.width() / covered.height());
  }
  EXPECT_NEAR(filled[0], 3.1416 / 4, 0.02);
  EXPECT_NEAR(filled[1], 1, 0.02);
  EXPECT_NEAR(filled[2], 0.5, 0.08);  // tips are thinner than a dot
  EXPECT_NEAR(filled[3], 0.5, 0.08);
}

TEST(CurveFigure, ALongCurveStaysSmallAndTheSame) {
  const auto figure = figure_of({curve([](double x) { return std::sin(x * x); }, 65536, 0)});
  for (const Kind kind : kKinds) {
    const std::string first = drawCurves(figure, {.kind = kind});
    EXPECT_LT(first.size(), 400'000U);
    EXPECT_EQ(drawCurves(figure, {.kind = kind}), first);
  }
}

TEST(CurveFigure, EmptyFiguresAndConstantsAreDrawn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto missing = curve([&](double) { return nan; }, 10, 0);
  const std::string text =
      output_of("pdftotext " + in_file(drawCurves(figure_of({missing}), {.kind = Kind::pdf}), ".pdf") + " -");
  EXPECT_NE(text.find("no values"), std::string::npos);
  for (const double constant : {0.0, -3.0, 1e-300, 1e9}) {
    auto shown = curve([&](double) { return constant; }, 10, 0);
    shown.name = "";
    const QImage page = rendered(drawCurves(figure_of({shown}), {}), Kind::png, 300);
    EXPECT_GT(share(columns_with(page, 0), 0.01, 0.99), 0.99) << constant;
  }
  auto single = curve([](double) { return 2; }, 1, 0);
  single.name = "";
  const QImage page = rendered(drawCurves(figure_of({single}), {}), Kind::png, 300);
  EXPECT_GT(share(columns_with(page, 0), 0.49, 0.51), 0.1);
  CurveFigure logarithmic = figure_of({curve([](double x) { return x; }, 1, 0)});
  logarithmic.xScale = figure::AxisScale::logarithmic;
  EXPECT_NO_THROW((void)drawCurves(logarithmic, {}));
}

template <typename Expected>
std::string refused(const CurveFigure& figure, const FigureFormat& format = {}) {
  return error_of<Expected>([&] { (void)drawCurves(figure, format); });
}

TEST(CurveFigure, WhatCannotBeDrawnIsRefused) {
  auto figure = figure_of({curve([](double x) { return x; }, 5, 0)});
  EXPECT_EQ(refused<UsageError>(figure, {.widthMm = 0}), "figure width 0 mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused<UsageError>(figure, {.widthMm = 15}),
            "figure width 15 mm: labels of 7.25 pt leave no room for the figure: use at least 20 mm, fewer panels or a "
            "smaller font");
  EXPECT_EQ(refused<UsageError>(figure, {.heightMm = 15}),
            "figure height 15 mm: labels of 9 pt leave no room for the figure: use at least 24 mm, fewer panels or a "
            "smaller font");
  figure.xLimits = figure::AxisLimits{3, 3};
  EXPECT_EQ(refused<UsageError>(figure), "x axis from 3 to 3: the lower must be below the upper");
  figure.xLimits = figure::AxisLimits{0, 3};
  figure.xScale = figure::AxisScale::logarithmic;
  EXPECT_EQ(refused<UsageError>(figure), "x axis from 0 to 3: a logarithmic axis begins above 0");
  figure.xLimits.reset();
  figure.yLimits = figure::AxisLimits{0, std::nan("")};
  EXPECT_EQ(refused<UsageError>(figure), "y axis from 0 to nan: the lower must be below the upper");
  figure.yLimits.reset();
  figure.curves[0].y.pop_back();
  EXPECT_EQ(refused<ShapeError>(figure), "[drawCurves] curve 'curve 0': 4 values of y for 5 of x");
  figure.curves[0].y.push_back(1);
  figure.curves[0].rawY = {1};
  EXPECT_EQ(refused<ShapeError>(figure), "[drawCurves] curve 'curve 0': 1 values of rawY for 5 of x");
}

}  // namespace
}  // namespace foxscope::test
