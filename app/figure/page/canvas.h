#pragma once

#include <functional>

#include <QColor>
#include <QFont>
#include <QImage>
#include <QPainter>
#include <QPen>
#include <QPointF>
#include <QPolygonF>
#include <QRectF>
#include <QString>
#include <QTextLayout>

#include "app/figure/figure_format.h"

namespace foxscope::figure {

/// Whether "*F*" is an italic F or stars around a letter.
enum class Markup { italics, none };

struct TextStyle {
  double size = 9;  ///< pt
  QColor colour = Qt::black;
  QString family = {};  ///< empty: DejaVu Sans
  Markup markup = Markup::italics;

  [[nodiscard]] TextStyle scaled(double factor) const { return {size * factor, colour, family, markup}; }
};

/// Black letters of the format's family and size.
TextStyle textStyleOf(const FigureFormat& format);

/// @throws UsageError for a family that is not installed; needs a Qt application
void requireFont(const FigureFormat& format);

enum class Align { left, centre, right };
enum class Direction { across, upwards };

/// Where a line of text stands: a point of its baseline, and which point that is.
struct TextPlace {
  QPointF baseline;
  Align align = Align::left;
  Direction direction = Direction::across;
};

/// The font that a layout of many lines is made with, at kDesignSize pixels: lengths are scaled down to the page.
QFont layoutFont(const TextStyle& style);
inline constexpr int kDesignSize = 1000;

/// Width of a line, points; the same for every kind of file.
double textWidth(const QString& text, const TextStyle& style);

/// Half the height of digits over their size: added to a centre, it gives the baseline.
inline constexpr double kHalfDigit = 0.365;

/// The surface that figures are drawn on: points of 1/72 inch from the upper left corner, white paper.
class Canvas {
 public:
  /// Glyphs stay text, for a file that embeds its fonts; outlines need no font.
  enum class TextAs { glyphs, outlines };

  /// The traits of a kind of file.
  struct Traits {
    TextAs textAs = TextAs::outlines;
    double imageInset = 0;     ///< by how much less than its rectangle an image is drawn on every side, points
    qsizetype lineAtOnce = 0;  ///< longer lines are drawn in pieces of this many points; 0: whole
  };

  Canvas(QPainter& painter, const Traits& traits) : m_painter(painter), m_traits(traits) {}

  void text(const QString& text, const TextPlace& place, const TextStyle& style);
  /// A line of a layout whose lengths are `scale` times those of the page, black, from its upper left corner on.
  void textLine(const QTextLine& line, const QPointF& corner, double scale);
  void line(const QPointF& from, const QPointF& to, const QPen& pen);
  /// Pieces of a line overlap, so its colour has to be opaque.
  void polyline(const QPolygonF& points, const QPen& pen);
  void disc(const QPointF& centre, double radius, const QColor& colour);
  void fill(const QRectF& rect, const QColor& colour);
  void polygon(const QPolygonF& corners, const QColor& colour);
  /// A line of this width around a rectangle, none of it inside.
  void frame(const QRectF& inner, double width, const QColor& colour);
  /// Calls it with a canvas whose upper left corner is at that point.
  void moved(const QPointF& corner, const std::function<void(Canvas&)>& draw);
  /// An image that fills the rectangle, its pixels kept apart.
  void image(const QRectF& place, const QImage& image);

 private:
  QPainter& m_painter;
  Traits m_traits;
};

}  // namespace foxscope::figure
