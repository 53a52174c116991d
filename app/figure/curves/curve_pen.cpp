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
constexpr double kHole = 0.55;  ///< of a ring
constexpr double kArm = 0.35;   ///< half the width of a cross's arms

/// Corners on a circle around a place, the first above it, or at another angle.
QPolygonF corners(const QPointF& place, double radius, int count, double first = 90) {
  QPolygonF polygon;
  for (int n = 0; n < count; ++n) {
    const QLineF arm = QLineF::fromPolar(radius, first + 360.0 * n / count);
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
  const double radius = curve.pointSize * kRadius * lineWidth;
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
    case PointShape::ring:
      canvas.disc(place, radius, colour);
      return canvas.disc(place, kHole * radius, Qt::white);
    case PointShape::cross:
      for (const QPointF arm : {QPointF(kArm, 1), QPointF(1, kArm)}) {
        canvas.fill(QRectF(place - arm * radius, place + arm * radius), colour);
      }
      return;
    case PointShape::down:
      return canvas.polygon(corners(place, kTriangle * radius, 3, -90), colour);
  }
}

QColor colourOf(const Curve& curve) {
  const Rgb colour = curve.ownColour.value_or(curveColour(curve.colour));
  return {colour.red, colour.green, colour.blue};
}

}  // namespace foxscope::figure
