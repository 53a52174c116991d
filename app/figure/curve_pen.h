#pragma once

#include <QPen>

#include "app/figure/curve_plot.h"

namespace foxscope::figure {

inline constexpr double kPointRadius = 1.4;  ///< of a disc that stands for a value, widths of the line

inline QPen penOf(const QColor& colour, double width, LineStyle line) {
  QPen pen(colour, width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin);
  if (line == LineStyle::dashed) pen.setDashPattern({4, 2});
  if (line == LineStyle::dotted) pen.setDashPattern({1.2, 1.6});
  return pen;
}

}  // namespace foxscope::figure
