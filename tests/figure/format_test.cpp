#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "app/figure/figure_format.h"
#include "app/figure/maps/map_figure.h"
#include "app/figure/maps/map_layout.h"
#include "tests/error_of.h"

namespace foxscope::test {
namespace {

using figure::FigureFormat;

std::string refused(const std::function<void(FigureFormat&)>& change) {
  FigureFormat format;
  change(format);
  return error_of<UsageError>([&] { figure::requireValid(format); });
}

MapRequest region(Range rows, Range columns) {
  MapRequest request;
  request.rows = rows;
  request.columns = columns;
  return request;
}

std::string refused_width(double millimetres) {
  return refused([&](FigureFormat& format) { format.widthMm = millimetres; });
}

TEST(Format, TheDefaultIsAPapersText) {
  EXPECT_EQ(refused([](FigureFormat&) {}), "");
  EXPECT_DOUBLE_EQ(figure::widthInPoints({}), 396);
}

TEST(Format, LettersOfANarrowFigureAreSmaller) {
  EXPECT_EQ(figure::fontSize({}), 9);
  EXPECT_EQ(figure::fontSize({.widthMm = 4 * 25.4}), 9);
  EXPECT_EQ(figure::fontSize({.widthMm = 3.25 * 25.4}), 7.25);
  EXPECT_EQ(figure::fontSize({.widthMm = 3.25 * 25.4, .fontSizePt = 10}), 10);
}

TEST(Format, SizesThatNoPaperHasAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refused_width(0), "figure width 0 mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused_width(-5), "figure width -5 mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused_width(nan), "figure width nan mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused_width(infinity), "figure width inf mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused_width(1000.5), "figure width 1000.5 mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused_width(1000), "");
  EXPECT_EQ(refused([&](FigureFormat& format) { format.heightMm = nan; }),
            "figure height nan mm: use more than 0 and at most 1000 mm");
  EXPECT_EQ(refused([](FigureFormat& format) { format.heightMm = 0; }),
            "figure height 0 mm: use more than 0 and at most 1000 mm");
}

TEST(Format, ResolutionsAndFontsHaveLimits) {
  EXPECT_EQ(refused([](FigureFormat& format) { format.dpi = 0; }), "figure resolution 0 dpi: use 36 to 2400");
  EXPECT_EQ(refused([](FigureFormat& format) { format.dpi = 2401; }), "figure resolution 2401 dpi: use 36 to 2400");
  EXPECT_EQ(refused([](FigureFormat& format) { format.fontSizePt = 3; }), "figure font size 3 pt: use 4 to 48");
  EXPECT_EQ(refused([](FigureFormat& format) { format.fontSizePt = std::nan(""); }),
            "figure font size nan pt: use 4 to 48");
  EXPECT_EQ(refused([](FigureFormat& format) {
              format.widthMm = 1000;
              format.dpi = 600;
            }),
            "figure width 1000 mm at 600 dpi: 23622 dots are more than 16384: use fewer dpi");
}

TEST(Format, AMapNeedsRoomBesideItsLabels) {
  FigureFormat format;
  format.widthMm = 20;
  const std::string message = error_of<UsageError>([&] { (void)figure::mapRoom(region({0, 100}, {0, 100}), format); });
  ASSERT_EQ(message.find("figure width 20 mm: labels of 7.25 pt leave no room for a map: use at least "), 0U)
      << message;
  format.widthMm = std::stod(message.substr(message.find("at least ") + 9));
  EXPECT_NO_THROW((void)figure::mapRoom(region({0, 100}, {0, 100}), format));
  format.heightMm = 10;
  EXPECT_THROW((void)figure::mapRoom(region({0, 100}, {0, 100}), format), UsageError);
}

TEST(Format, RoomGrowsWithWidthAndResolutionAndFollowsTheRegion) {
  const auto square = figure::mapRoom(region({0, 5000}, {0, 5000}), {});
  EXPECT_EQ(square.rows, square.columns);
  FigureFormat fine;
  fine.dpi = 600;
  EXPECT_NEAR(static_cast<double>(figure::mapRoom(region({0, 5000}, {0, 5000}), fine).rows), 2.0 * square.rows, 1);
  const auto flat = figure::mapRoom(region({0, 1000}, {0, 2000}), {});
  EXPECT_NEAR(static_cast<double>(flat.columns) / static_cast<double>(flat.rows), 2, 0.01);
}

TEST(Format, PixelsAreWholeMultiplesOfDotsWhereTheyFillTheRoom) {
  using Kind = FigureFormat::Kind;
  for (const Kind kind : {Kind::png, Kind::svg, Kind::pdf}) {
    const auto side = figure::sideDots(1300, 64, kind);
    EXPECT_EQ(side.dots, 1280);
    EXPECT_EQ(side.pixels, 1280);
  }
  EXPECT_EQ(figure::sideDots(1300, 800, Kind::png).pixels, 1300);
  EXPECT_EQ(figure::sideDots(1300, 800, Kind::pdf).dots, 1300);
  EXPECT_EQ(figure::sideDots(1300, 800, Kind::pdf).pixels, 1600);
  EXPECT_EQ(figure::sideDots(1300, 3000, Kind::svg).pixels, 3000);
  EXPECT_THROW((void)figure::sideDots(1300, 3000, Kind::png), UsageError);
}

}  // namespace
}  // namespace foxscope::test
