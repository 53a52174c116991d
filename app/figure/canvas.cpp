#include "app/figure/canvas.h"

#include <algorithm>

#include <QFont>
#include <QFontMetricsF>
#include <QLineF>
#include <QPainterPath>

namespace foxscope::figure {
namespace {

// Fonts are measured and outlined at this size and scaled down, so that no rounding to dots moves a letter.
constexpr int kDesignSize = 1000;

QFont designFont() {
  QFont font(QStringLiteral("DejaVu Sans"));
  font.setPixelSize(kDesignSize);
  font.setHintingPreference(QFont::PreferNoHinting);
  return font;
}

// From the design font's coordinates to those of the page.
QTransform placement(const QString& text, const TextPlace& place, const TextStyle& style) {
  const double scale = style.size / kDesignSize;
  const double width = textWidth(text, style) / scale;
  QTransform transform;
  transform.translate(place.baseline.x(), place.baseline.y());
  if (place.direction == Direction::upwards) transform.rotate(-90);
  transform.scale(scale, scale);
  if (place.align == Align::centre) transform.translate(-width / 2, 0);
  if (place.align == Align::right) transform.translate(-width, 0);
  return transform;
}

double lengthOf(const QPolygonF& points) {
  double length = 0;
  for (qsizetype index = 1; index < points.size(); ++index) length += QLineF(points[index - 1], points[index]).length();
  return length;
}

}  // namespace

double textWidth(const QString& text, const TextStyle& style) {
  return QFontMetricsF(designFont()).horizontalAdvance(text) * style.size / kDesignSize;
}

void Canvas::text(const QString& text, const TextPlace& place, const TextStyle& style) {
  const QTransform transform = placement(text, place, style);
  const QFont font = designFont();
  if (m_traits.textAs == TextAs::outlines) {
    QPainterPath path;
    path.setFillRule(Qt::WindingFill);
    path.addText(QPointF(0, 0), font, text);
    m_painter.fillPath(transform.map(path), style.colour);
    return;
  }
  m_painter.save();
  m_painter.setTransform(transform, true);
  m_painter.setFont(font);
  m_painter.setPen(style.colour);
  m_painter.drawText(QPointF(0, 0), text);
  m_painter.restore();
}

void Canvas::line(const QPointF& from, const QPointF& to, const QPen& pen) {
  m_painter.setPen(pen);
  m_painter.drawLine(from, to);
}

void Canvas::polyline(const QPolygonF& points, const QPen& pen) {
  m_painter.setBrush(Qt::NoBrush);
  const qsizetype step = m_traits.lineAtOnce > 0 ? m_traits.lineAtOnce : std::max<qsizetype>(1, points.size());
  QPen piecePen = pen;
  if (pen.style() == Qt::SolidLine) piecePen.setCapStyle(Qt::RoundCap);
  for (qsizetype begin = 0; begin + 1 < points.size(); begin += step) {
    const QPolygonF piece = points.mid(begin, step + 1);
    m_painter.setPen(piecePen);
    m_painter.drawPolyline(piece);
    // Dashes go on where the piece ended; their unit is the pen's width.
    if (pen.style() != Qt::SolidLine) piecePen.setDashOffset(piecePen.dashOffset() + lengthOf(piece) / pen.widthF());
  }
}

void Canvas::disc(const QPointF& centre, double radius, const QColor& colour) {
  m_painter.setPen(Qt::NoPen);
  m_painter.setBrush(colour);
  m_painter.drawEllipse(centre, radius, radius);
}

void Canvas::fill(const QRectF& rect, const QColor& colour) { m_painter.fillRect(rect, colour); }

void Canvas::frame(const QRectF& inner, double width, const QColor& colour) {
  const double half = width / 2;
  m_painter.setBrush(Qt::NoBrush);
  m_painter.setPen(QPen(colour, width, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
  m_painter.drawRect(inner.adjusted(-half, -half, half, half));
}

void Canvas::image(const QRectF& place, const QImage& image) {
  m_painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  const double inset = m_traits.imageInset;
  m_painter.drawImage(place.adjusted(inset, inset, -inset, -inset), image);
}

}  // namespace foxscope::figure
