#include "app/figure/page/canvas.h"

#include <algorithm>
#include <vector>

#include <QFont>
#include <QFontDatabase>
#include <QFontMetricsF>
#include <QGlyphRun>
#include <QLineF>
#include <QPainterPath>
#include <QRawFont>
#include <QRegularExpression>
#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

enum class Slant { upright, italic };

/// Letters of one font, a part of a line.
struct Piece {
  QString text;
  Slant slant = Slant::upright;
};

// Fonts are measured and outlined at a large size and scaled down, so that no rounding to dots moves a letter.
QFont designFont(const TextStyle& style, Slant slant) {
  QFont font(style.family.isEmpty() ? QStringLiteral("DejaVu Sans") : style.family);
  font.setPixelSize(kDesignSize);
  font.setHintingPreference(QFont::PreferNoHinting);
  font.setItalic(slant == Slant::italic);
  return font;
}

std::vector<Piece> piecesOf(const QString& text, const TextStyle& style) {
  if (style.markup == Markup::none || !text.contains('*')) return {{text}};
  static const QRegularExpression kItalic(QStringLiteral("\\*([^*\\s]+)\\*"));
  std::vector<Piece> pieces;
  qsizetype end = 0;
  for (auto match = kItalic.globalMatch(text); match.hasNext();) {
    const QRegularExpressionMatch found = match.next();
    if (found.capturedStart() > end) pieces.push_back({text.mid(end, found.capturedStart() - end)});
    pieces.push_back({found.captured(1), Slant::italic});
    end = found.capturedEnd();
  }
  if (end < text.size()) pieces.push_back({text.mid(end)});
  return pieces;
}

double designWidth(const Piece& piece, const TextStyle& style) {
  return QFontMetricsF(designFont(style, piece.slant)).horizontalAdvance(piece.text);
}

// Maps the design font's coordinates to those of the page.
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

TextStyle textStyleOf(const FigureFormat& format) {
  return {fontSize(format), Qt::black, QString::fromStdString(format.fontFamily)};
}

void requireFont(const FigureFormat& format) {
  if (format.fontFamily.empty()) return;
  const QString wanted = QString::fromStdString(format.fontFamily);
  // Families that several foundries made are listed with the foundry: "Nimbus Roman [urw]".
  for (const QString& family : QFontDatabase::families()) {
    if (family.section(QStringLiteral(" ["), 0, 0).compare(wanted, Qt::CaseInsensitive) == 0) return;
  }
  throw UsageError(fmt::format("figure font {}: no such family is installed: `fc-list : family` lists those that are",
                               format.fontFamily));
}

QFont layoutFont(const TextStyle& style) { return designFont(style, Slant::upright); }

double textWidth(const QString& text, const TextStyle& style) {
  double width = 0;
  for (const Piece& piece : piecesOf(text, style)) width += designWidth(piece, style);
  return width * style.size / kDesignSize;
}

void Canvas::text(const QString& text, const TextPlace& place, const TextStyle& style) {
  QTransform transform = placement(text, place, style);
  for (const Piece& piece : piecesOf(text, style)) {
    const QFont font = designFont(style, piece.slant);
    if (m_traits.textAs == TextAs::outlines) {
      QPainterPath path;
      path.setFillRule(Qt::WindingFill);
      path.addText(QPointF(0, 0), font, piece.text);
      m_painter.fillPath(transform.map(path), style.colour);
    } else {
      m_painter.save();
      m_painter.setTransform(transform, true);
      m_painter.setFont(font);
      m_painter.setPen(style.colour);
      m_painter.drawText(QPointF(0, 0), piece.text);
      m_painter.restore();
    }
    transform.translate(designWidth(piece, style), 0);
  }
}

void Canvas::textLine(const QTextLine& line, const QPointF& corner, double scale) {
  m_painter.save();
  m_painter.translate(corner);
  m_painter.scale(1 / scale, 1 / scale);
  m_painter.translate(-line.position());
  m_painter.setPen(Qt::black);
  if (m_traits.textAs == TextAs::glyphs) {
    line.draw(&m_painter, QPointF(0, 0));
    m_painter.restore();
    return;
  }
  QPainterPath path;
  path.setFillRule(Qt::WindingFill);
  for (const QGlyphRun& run : line.glyphRuns()) {
    const QList<quint32> glyphs = run.glyphIndexes();
    const QList<QPointF> places = run.positions();
    for (qsizetype index = 0; index < glyphs.size(); ++index) {
      path.addPath(run.rawFont().pathForGlyph(glyphs[index]).translated(places[index]));
    }
  }
  m_painter.fillPath(path, Qt::black);
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

void Canvas::polygon(const QPolygonF& corners, const QColor& colour) {
  m_painter.setPen(Qt::NoPen);
  m_painter.setBrush(colour);
  m_painter.drawPolygon(corners);
}

void Canvas::frame(const QRectF& inner, double width, const QColor& colour) {
  const double half = width / 2;
  m_painter.setBrush(Qt::NoBrush);
  m_painter.setPen(QPen(colour, width, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
  m_painter.drawRect(inner.adjusted(-half, -half, half, half));
}

void Canvas::moved(const QPointF& corner, const std::function<void(Canvas&)>& draw) {
  m_painter.save();
  m_painter.translate(corner);
  draw(*this);
  m_painter.restore();
}

void Canvas::image(const QRectF& place, const QImage& image) {
  m_painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  const double inset = m_traits.imageInset;
  m_painter.drawImage(place.adjusted(inset, inset, -inset, -inset), image);
}

}  // namespace foxscope::figure
