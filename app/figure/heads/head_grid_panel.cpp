#include "app/figure/heads/head_grid_panel.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/maps/map_numbers.h"
#include "app/figure/maps/map_raster.h"

namespace foxscope::figure {
namespace {

constexpr double kGapPoints = 1.4;  ///< white between neighbouring maps
constexpr double kMostHigh = 1;     ///< of the width: few heads in many layers get smaller maps
constexpr int kLeastCell = 4;       ///< dots
constexpr double kStripGap = 0.3;   ///< between the maps and the strip of kinds, in font sizes
constexpr double kStrip = 0.6;      ///< its width, in font sizes

}  // namespace

HeadGridPanel::HeadGridPanel(const FigureFormat& format, int layers, int heads)
    : m_format(format), m_axes{layers, heads, textStyleOf(format)}, m_layers(layers), m_heads(heads) {}

int HeadGridPanel::cellOf(double width, double height) const {
  const double dots = dotsPerPoint(m_format);
  const int gap = std::max(1, static_cast<int>(std::lround(kGapPoints * dots)));
  const auto cell = [&](double length, int count) {
    return (static_cast<int>(std::floor(length * dots + 1e-6)) + gap) / count - gap;
  };
  return std::max(kLeastCell, std::min(cell(width, m_heads), cell(height, m_layers)));
}

int HeadGridPanel::cellDots(const QRectF& inner) const { return cellOf(inner.width(), inner.height()); }

void HeadGridPanel::setImages(std::vector<Image> images, const ScaledColours& colours, const MapRequest& request) {
  m_images = std::move(images);
  m_rows = request.rows;
  m_columns = request.columns;
  m_colours = colours;
}

Margins HeadGridPanel::margins(const QSizeF& inner) const {
  Margins margins = m_axes.margins(inner.height());
  if (!m_kinds.empty()) margins.right += (kStripGap + kStrip) * textStyleOf(m_format).size;
  return margins;
}

std::optional<double> HeadGridPanel::heightFor(double width) const {
  const double cell = (width + kGapPoints) / m_heads - kGapPoints;
  return std::min(m_layers * (cell + kGapPoints) - kGapPoints, kMostHigh * width);
}

QSizeF HeadGridPanel::sizeIn(const QSizeF& room) const {
  const double dots = dotsPerPoint(m_format);
  const int gap = std::max(1, static_cast<int>(std::lround(kGapPoints * dots)));
  const int cell = cellOf(room.width(), room.height());
  return {(m_heads * (cell + gap) - gap) / dots, (m_layers * (cell + gap) - gap) / dots};
}

void HeadGridPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_colours.label);
  for (std::size_t index = 0; index < m_images.size(); ++index) {
    const auto heads = static_cast<std::size_t>(m_heads);
    addPixels(
        numbers, fmt::format("{}:{}", index / heads, index % heads), m_images[index],
        [this, index](std::int64_t row) { return positionsText(m_rows, m_images[index].rows, row); },
        [this, index](std::int64_t column) { return positionsText(m_columns, m_images[index].columns, column); });
  }
}

void HeadGridPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const double dots = dotsPerPoint(m_format);
  const int cell = cellDots(inner);
  const int gap = std::max(1, static_cast<int>(std::lround(kGapPoints * dots)));
  QImage page(m_heads * (cell + gap) - gap, m_layers * (cell + gap) - gap, QImage::Format_RGB32);
  page.fill(Qt::white);
  for (std::size_t index = 0; index < m_images.size(); ++index) {
    const int layer = static_cast<int>(index) / m_heads;
    const int head = static_cast<int>(index) % m_heads;
    const int left = head * (cell + gap);
    const int top = layer * (cell + gap);
    const QImage map = paintRaster(m_images[index], m_colours, {cell, cell});
    for (int row = 0; row < cell; ++row) {
      const auto* from = reinterpret_cast<const QRgb*>(map.constScanLine(row));
      std::copy_n(from, cell, reinterpret_cast<QRgb*>(page.scanLine(top + row)) + left);
    }
  }
  canvas.image(inner, page);
  const double size = textStyleOf(m_format).size;
  const double each = (inner.height() + kGapPoints) / m_layers;
  for (std::size_t layer = 0; layer < m_kinds.size(); ++layer) {
    const Rgb& colour = m_kinds[layer];
    canvas.fill({inner.right() + kStripGap * size, inner.top() + static_cast<double>(layer) * each, kStrip * size,
                 each - kGapPoints},
                QColor(colour.red, colour.green, colour.blue));
  }
  m_axes.draw(canvas, inner);
}

}  // namespace foxscope::figure
