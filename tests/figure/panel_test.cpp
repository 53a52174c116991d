#include <cmath>
#include <limits>
#include <string>

#include <QGuiApplication>
#include <gtest/gtest.h>

#include "app/figure/curves/curve_legend.h"
#include "app/figure/curves/curve_panel.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/axis_drawing.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/text_panel.h"
#include "tests/error_of.h"
#include "tests/figure/rendering.h"

// Panels and the page that holds them: measured room, markup, bands, ticks.

namespace foxscope::test {
namespace {

using figure::AxisShown;
using figure::CurvePanel;
using figure::CurvePlot;
using figure::FigureStyle;
using figure::MapPanel;
using figure::PanelPage;
using figure::TextStyle;
using Kind = figure::FigureFormat::Kind;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Image ramp(std::int64_t rows, std::int64_t columns) {
  Image image{rows, columns, {}};
  for (std::int64_t cell = 0; cell < rows * columns; ++cell) {
    image.value.push_back(static_cast<float>(cell) / static_cast<float>(rows * columns));
  }
  return image;
}

std::unique_ptr<MapPanel> map_panel(const FigureStyle& style, std::int64_t side, const std::string& title) {
  MapPanel::Content content;
  content.rows = {{0, side}, "query *i*", {}, AxisShown::ticksAndName};
  content.columns = {{0, side}, "key *j*", {}, AxisShown::ticksAndName};
  content.title = title;
  return std::make_unique<MapPanel>(style.format, std::move(content));
}

figure::ScaledColours viridis_scale() {
  figure::ScaledColours colours;
  colours.map = &figure::viridis();
  return colours;
}

CurvePlot plot_of(const std::vector<double>& y) {
  CurvePlot plot;
  plot.xLabel = "token position *p*";
  plot.yLabel = "loss (nats)";
  figure::Curve curve;
  curve.name = "a curve";
  for (std::size_t index = 0; index < y.size(); ++index) curve.x.push_back(static_cast<double>(index));
  curve.y = y;
  plot.curves = {curve};
  return plot;
}

TEST(Panels, RectanglesOfARowAndAColumnAreAlignedAndApart) {
  for (const double width : {65.0, 139.7, 171.45}) {
    FigureStyle style;
    style.format.widthMm = width;
    style.format.fontSizePt = 7;
    PanelPage page(style);
    std::vector<MapPanel*> maps;
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 2; ++column) {
        maps.push_back(&page.add(map_panel(style, 5000, "Layer 10, head 20"), {row, column}));
      }
    }
    page.arrange();
    const QRectF a = page.inner(*maps[0]);
    const QRectF b = page.inner(*maps[1]);
    const QRectF c = page.inner(*maps[2]);
    EXPECT_EQ(a.top(), b.top());
    EXPECT_EQ(a.left(), c.left());
    EXPECT_EQ(a.size(), b.size());
    EXPECT_NEAR(a.width(), a.height(), 1e-9);
    const auto room = [](const MapPanel* panel, const QRectF& inner) { return panel->margins(inner.size()); };
    EXPECT_GE(b.left() - a.right(), room(maps[0], a).right + room(maps[1], b).left);
    EXPECT_GE(c.top() - a.bottom(), room(maps[0], a).bottom + room(maps[2], c).top);
    EXPECT_GE(a.left(), room(maps[0], a).left);
    EXPECT_LE(b.right() + room(maps[1], b).right, figure::widthInPoints(style.format));
    // Of whole dots, so that no cell is blurred.
    for (const double edge : {a.left(), a.right(), a.top(), a.bottom()}) {
      const double dots = edge * figure::dotsPerPoint(style.format);
      EXPECT_NEAR(dots, std::round(dots), 1e-6);
    }
  }
}

TEST(Panels, AChosenHeightKeepsTheProportionsOfMapsAndFillsCurves) {
  FigureStyle style;
  style.format.heightMm = 60;
  PanelPage maps(style);
  const MapPanel& map = maps.add(map_panel(style, 1000, ""), {});
  maps.arrange();
  EXPECT_NEAR(maps.inner(map).width(), maps.inner(map).height(), 1e-9);
  EXPECT_LT(maps.inner(map).height(), 60 / 25.4 * 72);

  for (const double height : {40.0, 200.0}) {
    style.format.heightMm = height;
    PanelPage curves(style);
    const CurvePanel& panel = curves.add(std::make_unique<CurvePanel>(style.format, plot_of({1, 2, 3})), {});
    curves.arrange();
    const figure::Margins room = panel.margins(curves.inner(panel).size());
    EXPECT_NEAR(curves.inner(panel).height() + room.top + room.bottom, height / 25.4 * 72, 10);
  }
}

TEST(Panels, CellsAreFlatInEveryViewer) {
  FigureStyle style;
  style.format.widthMm = 90;
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    style.format.kind = kind;
    PanelPage page(style);
    MapPanel& left = page.add(map_panel(style, 12, "left"), {0, 0});
    MapPanel& right = page.add(map_panel(style, 12, "right"), {0, 1});
    page.arrange();
    for (MapPanel* panel : {&left, &right}) panel->setImage(ramp(12, 12), viridis_scale());
    const QImage shown = rendered(page.paint({}), kind, 300);
    for (const MapPanel* panel : {&left, &right}) {
      const QRectF inner = page.inner(*panel);
      const int from = static_cast<int>(std::lround(inner.left() * 300 / 72));
      const int top = static_cast<int>(std::lround(inner.top() * 300 / 72));
      const int side = static_cast<int>(std::lround(inner.width() * 300 / 72));
      int wrong = 0;
      for (int y = 1; y < side - 1; ++y) {
        for (int x = 1; x < side - 1; ++x) {
          const int cell = y * 12 / side * 12 + x * 12 / side;
          const figure::Rgb colour = figure::colourAt(figure::viridis(), static_cast<float>(cell) / 144.0F);
          wrong += shown.pixel(from + x, top + y) == qRgb(colour.red, colour.green, colour.blue) ? 0 : 1;
        }
      }
      EXPECT_EQ(wrong, 0) << static_cast<int>(kind);
    }
  }
}

TEST(Panels, LettersGoToPanelsWithTitlesWhereThereAreSeveral) {
  FigureStyle style;
  style.format.kind = Kind::pdf;
  const auto text = [&](int panels) {
    PanelPage page(style);
    std::vector<MapPanel*> maps;
    for (int column = 0; column < panels; ++column)
      maps.push_back(&page.add(map_panel(style, 9, "title"), {0, column}));
    maps.push_back(&page.add(map_panel(style, 9, ""), {1, 0}));
    page.arrange();
    for (MapPanel* map : maps) map->setImage(ramp(9, 9), viridis_scale());
    return output_of("pdftotext -layout " + in_file(page.paint({}), ".pdf") + " -");
  };
  EXPECT_NE(text(3).find("(c) title"), std::string::npos);
  EXPECT_EQ(text(3).find("(d)"), std::string::npos);
  EXPECT_EQ(text(1).find("(a)"), std::string::npos);
}

TEST(Panels, TooManyPanelsAreRefusedWithTheWidthThatTheyNeed) {
  FigureStyle style;
  style.format.widthMm = 40;
  PanelPage page(style);
  for (int column = 0; column < 6; ++column) page.add(map_panel(style, 100, "title"), {0, column});
  const std::string message = error_of<UsageError>([&] { page.arrange(); });
  EXPECT_NE(message.find("figure width 40 mm: labels of 7.25 pt leave no room for 6 panels: use at least"),
            std::string::npos)
      << message;
}

TEST(Markup, StarsAreItalicsAndAreNotDrawn) {
  const figure::OffscreenApplication application;
  const TextStyle style;
  TextStyle plain = style;
  plain.markup = figure::Markup::none;
  EXPECT_NEAR(figure::textWidth("*F*", style), figure::textWidth("F", style), 0.1 * style.size);
  EXPECT_GT(figure::textWidth("*F*", plain), figure::textWidth("F", plain) + 0.6 * style.size);
  for (const char* literal : {"2 * 3", "a*", "* b *", "**"}) {
    EXPECT_EQ(figure::textWidth(literal, style), figure::textWidth(literal, plain)) << literal;
  }
}

TEST(Markup, LinesBreakAtSpacesAndLongNamesWithin) {
  const figure::OffscreenApplication application;
  const TextStyle style;
  const auto lines = figure::wrapped("(a) forgetting-transformer-pro-760m-longcrawl64\nlayer 12, head 3", style, 80);
  ASSERT_GE(lines.size(), 4U);
  QString joined;
  for (const QString& line : lines) {
    EXPECT_LE(figure::textWidth(line, style) * 0.85, 80) << line.toStdString();
    joined += line;
  }
  EXPECT_EQ(lines.back().toStdString(), "layer 12, head 3");
  EXPECT_EQ(QString(joined).remove(' ').toStdString(), "(a)forgetting-transformer-pro-760m-longcrawl64layer12,head3");
}

TEST(Legends, ALongNoteTakesLinesInsteadOfSmallLetters) {
  const figure::OffscreenApplication application;
  const figure::Legend legend{{}, "tokens: line (12), punct. (36), sent. (14), word (299), inside (38), rare (132)"};
  figure::FigureFormat format;
  format.widthMm = 2.65 * figure::kMillimetresPerInch;
  const TextStyle style = figure::textStyleOf(format).scaled(figure::em::kSmallFont);
  const double width = 150;
  ASSERT_GT(figure::textWidth(QString::fromStdString(legend.note), style), 1.5 * width);
  const TextStyle chosen = figure::legendStyle(legend, style, width);
  EXPECT_GT(chosen.size, 5);
  std::string words;
  double top = -1;
  for (const figure::LegendEntry& entry : figure::flowingLegend(legend, {0, 0}, width, chosen)) {
    words += (words.empty() ? "" : " ") + entry.text.toStdString();
    EXPECT_LE(entry.place.right(), width + 0.01);
    EXPECT_GT(entry.place.top(), top);
    top = entry.place.top();
  }
  EXPECT_EQ(words, legend.note);
}

TEST(Bands, AreAroundTheirCurveAndEndAtGaps) {
  CurvePlot plot = plot_of(std::vector<double>(400, 1.0));
  plot.curves[0].name.clear();
  plot.yLimits = figure::AxisLimits{0, 2};
  for (std::size_t index = 0; index < 400; ++index) {
    plot.curves[0].bandLower.push_back(index < 200 ? 0.5 : kNaN);
    plot.curves[0].bandUpper.push_back(index < 200 ? 1.5 : kNaN);
  }
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    FigureStyle style;
    style.format.kind = kind;
    PanelPage page(style);
    const CurvePanel& panel = page.add(std::make_unique<CurvePanel>(style.format, plot), {});
    page.arrange();
    const QImage shown = rendered(page.paint({}), kind, 300);
    const QRectF inner = page.inner(panel);
    const auto tinted = [&](double x, double y) {
      const QColor colour = shown.pixelColor(static_cast<int>((inner.left() + x * inner.width()) * 300 / 72),
                                             static_cast<int>((inner.bottom() - y * inner.height()) * 300 / 72));
      return colour.blue() - colour.red() > 5 && colour.red() > 150;
    };
    EXPECT_TRUE(tinted(0.2, 0.4)) << static_cast<int>(kind);
    EXPECT_TRUE(tinted(0.2, 0.7));
    EXPECT_FALSE(tinted(0.2, 0.8));
    EXPECT_FALSE(tinted(0.2, 0.2));
    EXPECT_FALSE(tinted(0.7, 0.4));
  }
}

TEST(Bands, AreCutAtTheAxes) {
  figure::PlotArea area{0, 0, 100, 100, {0, 10}, {0, 1}, figure::AxisScale::linear, figure::AxisScale::linear};
  const std::vector<double> x = {-5, 0, 5, 10, 15};
  const std::vector<double> lower(5, -3);
  const std::vector<double> upper(5, 0.5);
  const auto bands = figure::bandsOf(x, lower, upper, area, 0.1);
  ASSERT_EQ(bands.size(), 1U);
  ASSERT_EQ(bands[0].upper.size(), 3U);
  for (const auto& point : bands[0].lower) EXPECT_EQ(point.y, 100);
  for (const auto& point : bands[0].upper) EXPECT_EQ(point.y, 50);
}

TEST(Axes, ALogarithmicAxisOfYPutsDecadesAtEqualDistances) {
  CurvePlot plot = plot_of({0.1, 1, 10, 100});
  plot.yScale = figure::AxisScale::logarithmic;
  plot.yLimits = figure::AxisLimits{0.1, 100};
  const figure::PlotArea area{
      0, 0, 3, 3, {0, 3}, {0.1, 100}, figure::AxisScale::linear, figure::AxisScale::logarithmic};
  for (std::size_t index = 0; index < 4; ++index) {
    EXPECT_NEAR(area.at(static_cast<double>(index), plot.curves[0].y[index]).y, 3.0 - static_cast<double>(index),
                1e-12);
  }
  FigureStyle style;
  style.format.kind = Kind::pdf;
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, plot), {});
  page.arrange();
  const std::string text = output_of("pdftotext -layout " + in_file(page.paint({}), ".pdf") + " -");
  for (const char* label : {"0.1", "1", "100"}) EXPECT_NE(text.find(label), std::string::npos) << text;
}

// Three numbers have no room there, and the middle one alone would tell nothing.
TEST(Axes, AShortColourBarSaysItsEnds) {
  FigureStyle style;
  style.format.kind = Kind::pdf;
  style.format.widthMm = 18;
  PanelPage page(style);
  auto& bar = page.add(std::make_unique<figure::ColourBarPanel>(style.format), {});
  page.arrange();
  figure::ScaledColours colours;
  colours.map = &figure::diverging();
  colours.hasSigns = true;
  colours.lower = -0.13;
  colours.upper = 0.13;
  bar.setColours(colours, "Δ", "Δ");
  const std::string text = output_of("pdftotext " + in_file(page.paint({}), ".pdf") + " -");
  EXPECT_NE(text.find("−0.1"), std::string::npos) << text;
  EXPECT_EQ(text.find("0.0"), std::string::npos) << text;
}

TEST(Axes, ChosenTicksAreThoseWithinTheLimits) {
  const figure::Ticks ticks = figure::ticksAt({5, -0.25, 2.5, 99}, -1, 10);
  ASSERT_EQ(ticks.major.size(), 3U);
  EXPECT_EQ(ticks.major[0].label, "−0.25");
  EXPECT_EQ(ticks.major[1].label, "2.5");
  EXPECT_EQ(ticks.major[2].label, "5");
  EXPECT_TRUE(ticks.minor.empty());
}

TEST(Axes, CategoriesAreWrittenAtTheirPlaces) {
  CurvePlot plot = plot_of({1, 2, 3});
  plot.curves[0].line = figure::LineStyle::points;
  plot.categories = {"newline", "word", "rare"};
  FigureStyle style;
  style.format.kind = Kind::pdf;
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, plot), {});
  page.arrange();
  const std::string text = output_of("pdftotext -layout " + in_file(page.paint({}), ".pdf") + " -");
  const auto at = [&](const char* word) { return text.find(word); };
  EXPECT_LT(at("newline"), at("word"));
  EXPECT_LT(at("word"), at("rare"));
  EXPECT_NE(at("rare"), std::string::npos);
}

QImage shown_passage(const std::vector<figure::TintedPiece>& pieces) {
  figure::ScaledColours colours;
  colours.map = &figure::tint();
  FigureStyle style;
  PanelPage page(style);
  page.add(std::make_unique<figure::TextPanel>(style.format, pieces, colours), {});
  page.arrange();
  return rendered(page.paint({}), Kind::png, 300);
}

QRgb strongest_tint() {
  const figure::Rgb& colour = figure::tint().back();
  return qRgb(colour.red, colour.green, colour.blue);
}

TEST(Passage, ScriptsFromRightToLeftKeepTheirTintsBesideTheirWords) {
  // Of a line in Hebrew the first word is at the right.
  const std::vector<figure::TintedPiece> pieces = {{"שלום", 1, false}, {" עולם", 0, false}};
  const QImage shown = shown_passage(pieces);
  int leftmost = shown.width();
  int rightmost = 0;
  int ink = shown.width();
  for (int y = 0; y < shown.height(); ++y) {
    for (int x = 0; x < shown.width(); ++x) {
      if (shown.pixel(x, y) == strongest_tint()) leftmost = std::min(leftmost, x);
      if (shown.pixel(x, y) == strongest_tint()) rightmost = std::max(rightmost, x);
      if (qGray(shown.pixel(x, y)) < 60) ink = std::min(ink, x);
    }
  }
  EXPECT_GT(rightmost, leftmost);
  EXPECT_LT(ink, leftmost) << "the second word is not left of the first";
}

TEST(Passage, LineEndsAreSeenAndTintedLikeOtherTokens) {
  const auto dark_pixels = [](double of_line_end) {
    const std::vector<figure::TintedPiece> pieces = {{"one", 0, false}, {"\n", of_line_end, false}, {"two", 0, false}};
    const QImage shown = shown_passage(pieces);
    int count = 0;
    for (int y = 0; y < shown.height(); ++y) {
      for (int x = 0; x < shown.width(); ++x) count += shown.pixel(x, y) == strongest_tint() ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(dark_pixels(0), 0);
  EXPECT_GT(dark_pixels(1), 100);
}

}  // namespace
}  // namespace foxscope::test
