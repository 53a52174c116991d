#pragma once

#include <QPen>

#include "app/figure/curves/curve_plot.h"
#include "app/figure/page/canvas.h"

namespace foxscope::figure {

/// Width of curves, points: as chosen, or in proportion to the letters.
double lineWidthOf(const FigureFormat& format);

/// A line of that style and width.
QPen penOf(const QColor& colour, double width, LineStyle line);

/// One value of a curve of points, of a size that suits lines of that width.
void drawPoint(Canvas& canvas, const QPointF& place, const Curve& curve, double lineWidth);

/// Colour of a curve on paper.
QColor colourOf(const Curve& curve);

}  // namespace foxscope::figure
