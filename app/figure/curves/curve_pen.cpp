#include "app/figure/curves/curve_pen.h"

#include <QLineF>

#include "app/figure/curves/curve_palette.h"

namespace foxscope::figure {
namespace {

constexpr double kLineWidth = 0.13;  ///< font sizes
constexpr double kRadius = 1.4;      ///< of a disc, widths of the line
// Shapes of the disc's area, or a little more where they would look smaller.
constexpr double kSquare = 0.95;
constexpr double kTriangle = 1.45;
constexpr double kDiamond = 1.4;

/// Corners on a circle around a place, the first above it.
QPolygonF corners(const QPointF& place, double radius, int count) {
  QPolygonF polygon;
  for (int n = 0; n < count; ++n) {
    const QLineF arm = QLineF::fromPolar(radius, 90 + 360.0 * n / count);
    polygon.append(place + arm.p2());
  }
  return polygon;
}

}  // namespace

double lineWidthOf(const FigureFormat& format) { return format.lineWidthPt.value_or(kLineWidth * fontSize(format)); }

QPen penOf(const QColor& colour, double width, LineStyle line) {
  QPen pen(colour, width, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin);
  if (line == LineStyle::dashed) pen.setDashPattern({4, 2});
  if (line == LineStyle::dotted) pen.setDashPattern({1.2, 1.6});
  if (line == LineStyle::dashDotted) pen.setDashPattern({5, 1.6, 1.2, 1.6});
  return pen;
}

void drawPoint(Canvas& canvas, const QPointF& place, const Curve& curve, double lineWidth) {
  const double radius = kRadius * lineWidth;
  const QColor colour = colourOf(curve);
  switch (curve.shape) {
    case PointShape::disc:
      return canvas.disc(place, radius, colour);
    case PointShape::square:
      return canvas.fill(QRectF(place - QPointF(kSquare, kSquare) * radius, place + QPointF(kSquare, kSquare) * radius),
                         colour);
    case PointShape::triangle:
      return canvas.polygon(corners(place, kTriangle * radius, 3), colour);
    case PointShape::diamond:
      return canvas.polygon(corners(place, kDiamond * radius, 4), colour);
  }
}

QColor colourOf(const Curve& curve) {
  const Rgb colour = curve.ownColour.value_or(curveColour(curve.colour));
  return {colour.red, colour.green, colour.blue};
}

}  // namespace foxscope::figure
