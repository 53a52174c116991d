#include "app/figure/maps/map_raster.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "backend/base/error.h"

namespace foxscope::figure {

QImage paintRaster(const Image& image, const ScaledColours& colours, const QSize& size) {
  QImage cells(static_cast<int>(image.columns), static_cast<int>(image.rows), QImage::Format_RGB32);
  QImage raster(size, QImage::Format_RGB32);
  if (cells.isNull() || raster.isNull()) throw Error("drawing: there is no memory for this picture: choose fewer dpi");
  assert(static_cast<std::int64_t>(image.value.size()) == image.rows * image.columns);
  const float* value = image.value.data();
  for (int row = 0; row < cells.height(); ++row) {
    auto* line = reinterpret_cast<QRgb*>(cells.scanLine(row));
    for (int column = 0; column < cells.width(); ++column, ++value) {
      const Rgb colour = colours.colour(*value);
      line[column] = qRgb(colour.red, colour.green, colour.blue);
    }
  }
  // The cell at a raster pixel's centre.
  const auto cellAt = [](int pixel, int pixels, int cellCount) {
    return static_cast<int>((2LL * pixel + 1) * cellCount / (2LL * pixels));
  };
  for (int row = 0; row < size.height(); ++row) {
    const auto* from = reinterpret_cast<const QRgb*>(cells.constScanLine(cellAt(row, size.height(), cells.height())));
    auto* to = reinterpret_cast<QRgb*>(raster.scanLine(row));
    for (int column = 0; column < size.width(); ++column)
      to[column] = from[cellAt(column, size.width(), cells.width())];
  }
  return raster;
}

QImage paintColourBar(const ScaledColours& colours, const QSizeF& dots) {
  const auto side = [](double length) { return std::max(1, static_cast<int>(std::lround(length))); };
  QImage bar(side(dots.width()), side(dots.height()), QImage::Format_RGB32);
  for (int row = 0; row < bar.height(); ++row) {
    const double position = 1 - (row + 0.5) / bar.height();
    const Rgb colour = colours.colour(colours.value(position));
    std::fill_n(reinterpret_cast<QRgb*>(bar.scanLine(row)), bar.width(), qRgb(colour.red, colour.green, colour.blue));
  }
  return bar;
}

}  // namespace foxscope::figure
