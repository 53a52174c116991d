#include "app/figure/maps/map_figure.h"

#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/figure/colour_scale.h"
#include "backend/base/index.h"
#include "tests/error_of.h"
#include "tests/figure/random_run.h"
#include "tests/figure/rendering.h"

namespace foxscope::test {
namespace {

using figure::FigureFormat;
using Kind = figure::FigureFormat::Kind;

constexpr Kind kFileKinds[] = {Kind::png, Kind::svg, Kind::pdf};

std::shared_ptr<const Trace> run() {
  static const auto made = random_run(400);
  return made;
}

QRgb colour_of(const figure::Rgb& colour) { return qRgb(colour.red, colour.green, colour.blue); }

// What a dot of F has to be: the backend's value through viridis from 0 to 1.
QRgb expected_forget(float value) {
  if (std::isnan(value)) return colour_of(figure::kAbsent);
  return colour_of(figure::colourAt(figure::viridis(), value));
}

// Every dot of the raster is the colour of the cell that it lies in, for cells of whole dots.
void expect_flat_cells(const figure::MapFigure& figure, const QImage& page, const QRect& raster) {
  const auto rows = static_cast<int>(figure.image.rows);
  const auto columns = static_cast<int>(figure.image.columns);
  ASSERT_EQ(raster.width() % columns, 0);
  ASSERT_EQ(raster.height() % rows, 0);
  int wrong = 0;
  QPoint first;
  for (int y = 0; y < raster.height(); ++y) {
    for (int x = 0; x < raster.width(); ++x) {
      const int row = y / (raster.height() / rows);
      const int column = x / (raster.width() / columns);
      const QRgb expected = expected_forget(figure.image.value[index_of(row * columns + column)]);
      const bool same = page.pixel(raster.left() + x, raster.top() + y) == expected;
      if (!same && wrong == 0) first = QPoint(x, y);
      wrong += same ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0) << fmt::format("of {} x {}, first at {}, {}", raster.width(), raster.height(), first.x(),
                                     first.y());
}

TEST(MapFigure, CellsAreFlatAndShowTheBackendsValues) {
  const auto figure = map_figure(run(), Quantity::forget, {10, 74}, {10, 74});
  for (const int dpi : {300, 150}) {
    for (const Kind kind : kFileKinds) {
      SCOPED_TRACE(fmt::format("kind {} at {} dpi", static_cast<int>(kind), dpi));
      const QImage page = rendered(drawMap(figure, {.kind = kind, .dpi = dpi}), kind, dpi);
      expect_flat_cells(figure, page, raster_of(page));
    }
  }
}

TEST(MapFigure, AWidthThatIsNoWholeNumberOfDotsKeepsCellsFlat) {
  const auto figure = map_figure(run(), Quantity::forget, {10, 74}, {10, 74});
  for (const Kind kind : kFileKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const QImage page = rendered(drawMap(figure, {.kind = kind, .widthMm = 133.7, .heightMm = 111.1}), kind, 300);
    expect_flat_cells(figure, page, raster_of(page));
  }
}

TEST(MapFigure, OblongRegionsFillTheirSide) {
  for (const auto& [rows, columns] : {std::pair{Range{300, 320}, Range{0, 200}}, {Range{200, 400}, Range{10, 30}}}) {
    const auto figure = map_figure(run(), Quantity::forget, rows, columns);
    const QImage page = rendered(drawMap(figure, {}), Kind::png, 300);
    const QRect raster = raster_of(page);
    expect_flat_cells(figure, page, raster);
    EXPECT_GT(std::max(raster.width(), raster.height()), 0.6 * page.width());
    const double aspect = static_cast<double>(raster.height()) / raster.width();
    EXPECT_NEAR(aspect > 1 ? aspect : 1 / aspect, 2.5, 0.3);
  }
}

TEST(MapFigure, ASingleEntryIsOneSquare) {
  const auto figure = map_figure(run(), Quantity::forget, {5, 6}, {5, 6});
  const QImage page = rendered(drawMap(figure, {}), Kind::png, 300);
  expect_flat_cells(figure, page, raster_of(page));
}

TEST(MapFigure, WithoutRoomForWholeDotsNoPixelIsLostOrMixed) {
  const auto figure = map_figure(run(), Quantity::forget, {0, 400}, {0, 400});
  FigureFormat format{.widthMm = 85};
  const QImage page = rendered(drawMap(figure, format), Kind::png, 300);
  const QRect raster = raster_of(page);
  ASSERT_NE(raster.width() % 400, 0) << "choose another width: this one is a whole multiple";
  ASSERT_GT(raster.width(), 400);
  std::map<int, int> dots_of_column;
  for (int x = 0; x < raster.width(); ++x) {
    const int column = static_cast<int>((x + 0.5) * 400 / raster.width());
    ++dots_of_column[column];
    const int row = 399;
    EXPECT_EQ(page.pixel(raster.left() + x, raster.bottom()),
              expected_forget(figure.image.value[index_of(row * 400 + column)]));
  }
  EXPECT_EQ(dots_of_column.size(), 400U);

  // In a PDF all pixels of the map are alike in the embedded raster.
  format.kind = Kind::pdf;
  const std::string path = in_file(drawMap(figure, format), ".pdf");
  const std::string list = output_of("pdfimages -list " + path);
  EXPECT_NE(list.find(" 800   800 "), std::string::npos) << list;
  EXPECT_EQ(list.find("jpeg"), std::string::npos);
  (void)output_of(fmt::format("pdfimages -png {} {}-image", path, path));
  QImage raster_of_pdf(QString::fromStdString(path + "-image-000.png"));
  ASSERT_EQ(raster_of_pdf.size(), QSize(800, 800));
  for (int y = 0; y < 800; y += 7) {
    for (int x = 0; x < 800; ++x) {
      ASSERT_EQ(raster_of_pdf.pixel(x, y), expected_forget(figure.image.value[index_of(y / 2 * 400 + x / 2)]));
    }
  }
}

TEST(MapFigure, APngNeedsADotForEveryPixel) {
  const auto figure = map_figure(run(), Quantity::forget, {0, 400}, {0, 400});
  const std::string message = error_of<UsageError>([&] { (void)drawMap(figure, {.widthMm = 55}); });
  EXPECT_NE(message.find("400 pixels of the map on "), std::string::npos) << message;
  EXPECT_GT(drawMap(figure, {.kind = Kind::pdf, .widthMm = 55}).size(), 1000U);
}

TEST(MapFigure, TheRoomThatIsAnnouncedIsThere) {
  // Whatever the labels of the colour bar are, a map of the announced size is drawn dot by dot.
  for (const Quantity quantity :
       {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention, Quantity::gate_effect}) {
    const Range range{0, 400};
    const FigureFormat format{.widthMm = 60};
    auto figure = map_figure(run(), quantity, range, range);
    const auto room = figure::mapRoom(figure.request, format);
    ASSERT_LT(room.columns, 400);
    figure.request.pixel_rows = room.rows;
    figure.request.pixel_columns = room.columns;
    figure.image = *compute_map(figure.request, {});
    const QImage page = rendered(drawMap(figure, format), Kind::png, 300);
    EXPECT_EQ(raster_of(page).size(), QSize(static_cast<int>(room.columns), static_cast<int>(room.rows)));
  }
}

TEST(MapFigure, ChosenColoursAreDrawn) {
  auto figure = map_figure(run(), Quantity::forget, {0, 40}, {0, 40});
  figure.colours = {&figure::grey(), 0.2, 0.8, 0.3};
  for (const Kind kind : kFileKinds) {
    const QImage page = rendered(drawMap(figure, {.kind = kind}), kind, 300);
    const QRect raster = raster_of(page);
    const int dots = raster.width() / 40;
    int blank = 0;
    for (int row = 0; row < 40; ++row) {
      for (int column = 0; column <= row; ++column) {
        const float value = figure.image.value[index_of(row * 40 + column)];
        const QRgb seen = page.pixel(raster.left() + column * dots + dots / 2, raster.top() + row * dots + dots / 2);
        const int level = static_cast<int>(std::lround(255 * std::clamp((value - 0.2) / 0.6, 0.0, 1.0)));
        EXPECT_EQ(seen, value < 0.3 ? qRgb(255, 255, 255) : qRgb(level, level, level));
        blank += value < 0.3 ? 1 : 0;
      }
    }
    EXPECT_GT(blank, 10);
    EXPECT_LT(blank, 800);
  }
}

TEST(MapFigure, TheGroundIsWhiteAndNothingIsCutOff) {
  for (const Quantity quantity : {Quantity::forget, Quantity::attention, Quantity::logits, Quantity::gate_effect}) {
    for (const double width : {60.0, 139.7}) {
      for (const Kind kind : kFileKinds) {
        const auto figure = map_figure(run(), quantity, {0, 90}, {0, 200});
        const QImage page = rendered(drawMap(figure, {.kind = kind, .widthMm = width}), kind, 300);
        int coloured = 0;
        for (int x = 0; x < page.width(); ++x) {
          for (const int y : {0, 1, page.height() - 2}) coloured += page.pixel(x, y) == qRgb(255, 255, 255) ? 0 : 1;
        }
        for (int y = 0; y < page.height(); ++y) {
          for (const int x : {0, 1, page.width() - 2}) coloured += page.pixel(x, y) == qRgb(255, 255, 255) ? 0 : 1;
        }
        EXPECT_EQ(coloured, 0) << to_string(quantity) << " " << width << " " << static_cast<int>(kind);
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::test
