#pragma once

#include <span>
#include <string>
#include <vector>

#include <QRectF>

#include "app/figure/curves/curve_plot.h"
#include "app/figure/page/canvas.h"

namespace foxscope::figure {

/// The content of a legend: a sample and a name of each curve that has one, and a note.
struct Legend {
  std::span<const Curve> curves;
  std::string note = {};
};

/// One entry, its sample's left end at the rectangle's.
struct LegendEntry {
  const Curve* curve = nullptr;  ///< null: a line of the note
  QString text;                  ///< the name, shortened in the middle where there is no room for all of it
  QRectF place;
};

/// The style, smaller where the longest entry would be wider than this, but not below 0.55 of its size. Names make it
/// smaller; a note takes more lines.
TextStyle legendStyle(const Legend& legend, const TextStyle& style, double width);

/// Size of the legend with one entry below the other; empty where it says nothing.
QSizeF legendSize(const Legend& legend, const TextStyle& style);

/// Entries one below the other, in a box of legendSize.
std::vector<LegendEntry> stackedLegend(const Legend& legend, const QRectF& box, const TextStyle& style);

/// Width of all entries side by side.
double legendWidth(const Legend& legend, const TextStyle& style);

/// Entries side by side in as few lines as they need, from this corner on, the lines as alike in length as it goes.
std::vector<LegendEntry> flowingLegend(const Legend& legend, const QPointF& corner, double width,
                                       const TextStyle& style);

/// Draws them; a sample of each curve is drawn with this width of line.
void drawLegendEntries(Canvas& canvas, std::span<const LegendEntry> entries, const TextStyle& style, double lineWidth);

}  // namespace foxscope::figure
