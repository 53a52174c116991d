#pragma once

#include <span>
#include <vector>

#include <QRectF>

#include "app/figure/canvas.h"
#include "app/figure/curve_plot.h"

namespace foxscope::figure {

/// One named curve in a legend, its sample's left end at the rectangle's.
struct LegendEntry {
  const Curve* curve = nullptr;
  QString text;  ///< its name, shortened in the middle where there is no room for all of it
  QRectF place;
};

/// The style, smaller where the longest entry would be wider than this, but not below 0.55 of its size.
TextStyle legendStyle(std::span<const Curve> curves, const TextStyle& style, double width);

/// Size of the legend with one entry below the other; empty where no curve is named.
QSizeF legendSize(std::span<const Curve> curves, const TextStyle& style);

/// Entries one below the other, in a box of legendSize.
std::vector<LegendEntry> stackedLegend(std::span<const Curve> curves, const QRectF& box, const TextStyle& style);

/// Entries side by side in as many lines as they need, from this corner on.
std::vector<LegendEntry> flowingLegend(std::span<const Curve> curves, const QPointF& corner, double width,
                                       const TextStyle& style);

/// Draws them; a sample of each curve is drawn with this width of line.
void drawLegendEntries(Canvas& canvas, std::span<const LegendEntry> entries, const TextStyle& style, double lineWidth);

}  // namespace foxscope::figure
