#pragma once

#include <QColor>
#include <QImage>
#include <QPainter>
#include <QPen>
#include <QPointF>
#include <QPolygonF>
#include <QRectF>
#include <QString>

namespace foxscope::figure {

struct TextStyle {
  double size = 9;  ///< pt
  QColor colour = Qt::black;
};

enum class Align { left, centre, right };
enum class Direction { across, upwards };

/// Where a line of text stands: a point of its baseline, and which point that is.
struct TextPlace {
  QPointF baseline;
  Align align = Align::left;
  Direction direction = Direction::across;
};

/// Width of a line in DejaVu Sans, points; the same for every kind of file. There is one font: Qt embeds several in an
/// order that differs from one start of the program to the next.
double textWidth(const QString& text, const TextStyle& style);

/// Half the height of digits over their size: added to a centre, it gives the baseline.
inline constexpr double kHalfDigit = 0.365;

/// What figures are drawn with: points of 1/72 inch from the upper left corner, white paper.
class Canvas {
 public:
  /// Glyphs stay text, for a file that embeds its fonts; outlines need no font.
  enum class TextAs { glyphs, outlines };

  /// What suits a kind of file.
  struct Traits {
    TextAs textAs = TextAs::outlines;
    double imageInset = 0;     ///< by how much less than its rectangle an image is drawn on every side, points
    qsizetype lineAtOnce = 0;  ///< longer lines are drawn in pieces of this many points; 0: whole
  };

  Canvas(QPainter& painter, const Traits& traits) : m_painter(painter), m_traits(traits) {}

  void text(const QString& text, const TextPlace& place, const TextStyle& style);
  void line(const QPointF& from, const QPointF& to, const QPen& pen);
  /// Pieces of a line overlap, so its colour has to be opaque.
  void polyline(const QPolygonF& points, const QPen& pen);
  void disc(const QPointF& centre, double radius, const QColor& colour);
  void fill(const QRectF& rect, const QColor& colour);
  /// A line of this width around a rectangle, none of it inside.
  void frame(const QRectF& inner, double width, const QColor& colour);
  /// An image that fills the rectangle, its pixels kept apart.
  void image(const QRectF& place, const QImage& image);

 private:
  QPainter& m_painter;
  Traits m_traits;
};

}  // namespace foxscope::figure
