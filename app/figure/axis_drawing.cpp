#include "app/figure/axis_drawing.h"

#include <algorithm>

#include <QRegularExpression>

#include "app/figure/figure_measures.h"

namespace foxscope::figure {
namespace {

constexpr double kSmallest = 0.55;
constexpr double kLittleSmaller = 0.85;  ///< a line this much smaller is better than two

/// Points beside an edge: along it from a value's position, outwards by a distance.
struct EdgePoints {
  const AxisEdge& edge;
  [[nodiscard]] QPointF at(double position, double out) const {
    const QRectF& rect = edge.rect;
    switch (edge.side) {
      case AxisEdge::Side::left:
        return {rect.left() - out, rect.bottom() - position * rect.height()};
      case AxisEdge::Side::right:
        return {rect.right() + out, rect.bottom() - position * rect.height()};
      case AxisEdge::Side::bottom:
        return {rect.left() + position * rect.width(), rect.bottom() + out};
    }
    return {};
  }
};

TextPlace tickLabelPlace(const EdgePoints& points, double position, double fontSize) {
  const double out = (em::kTick + em::kPad) * fontSize;
  const QPointF down(0, kHalfDigit * fontSize);
  switch (points.edge.side) {
    case AxisEdge::Side::left:
      return {points.at(position, out) + down, Align::right};
    case AxisEdge::Side::right:
      return {points.at(position, out) + down, Align::left};
    case AxisEdge::Side::bottom:
      return {points.at(position, out) + 2 * down, Align::centre};
  }
  return {};
}

bool fits(const QString& text, const TextStyle& style, double width) {
  return textWidth(text, style) * kLittleSmaller <= width;
}

void addWrapped(const QString& text, const TextStyle& style, double width, std::vector<QString>& lines) {
  static const QRegularExpression kWithin(QStringLiteral("(?<=[-_/.,])"));
  QString line;
  QString gap;
  const auto add = [&](const QString& part) {
    if (!line.isEmpty() && !fits(line + gap + part, style, width)) {
      lines.push_back(line);
      line = part;
    } else {
      line += gap + part;
    }
    gap.clear();
  };
  for (const QString& word : text.split(' ')) {
    if (!line.isEmpty()) gap = QStringLiteral(" ");
    if (fits(line + gap + word, style, width) || fits(word, style, width)) {
      add(word);
      continue;
    }
    for (const QString& part : word.split(kWithin, Qt::SkipEmptyParts)) add(part);
  }
  lines.push_back(line);
}

}  // namespace

double widestLabel(const Ticks& ticks, const TextStyle& style) {
  double widest = 0;
  for (const Tick& tick : ticks.major) widest = std::max(widest, textWidth(QString::fromStdString(tick.label), style));
  return widest;
}

void drawAxis(Canvas& canvas, const AxisEdge& edge, const Ticks& ticks, const std::string& label, double labels,
              const TextStyle& style) {
  const EdgePoints points{edge};
  const double fontSize = style.size;
  const QPen pen(Qt::black, em::kStroke * fontSize, Qt::SolidLine, Qt::FlatCap);
  const auto tickAt = [&](double value, double length) {
    const double position = edge.position(value);
    // From within the frame's line, not from its inner edge: no dot inside is touched.
    canvas.line(points.at(position, em::kStroke * fontSize / 2), points.at(position, length * fontSize), pen);
    return position;
  };
  for (const double value : ticks.minor) tickAt(value, em::kMinorTick);
  for (const Tick& tick : ticks.major) {
    const double position = tickAt(tick.value, em::kTick);
    canvas.text(QString::fromStdString(tick.label), tickLabelPlace(points, position, fontSize), style);
  }
  QString line = QString::fromStdString(label);
  if (line.isEmpty() && ticks.factor.empty()) return;
  if (!ticks.factor.empty()) line += QStringLiteral(" (× ") + QString::fromStdString(ticks.factor) + ")";
  const bool across = edge.side == AxisEdge::Side::bottom;
  const double length = across ? edge.rect.width() : edge.rect.height();
  const TextStyle labelStyle = fitted(style, line, length + 3 * fontSize);
  // Centred; a label that is longer than its edge begins at the top and ends below, where the page has room.
  const double longer = across ? 0 : std::max(0.0, textWidth(line, labelStyle) - length);
  // The line's ascent is on the outer side of its baseline on the left, on the inner side elsewhere.
  const double out = labels + (em::kTick + 2 * em::kPad + (edge.side == AxisEdge::Side::left ? 0.25 : 0.95)) * fontSize;
  canvas.text(
      line,
      {points.at(0.5, out) + QPointF(0, longer / 2), Align::centre, across ? Direction::across : Direction::upwards},
      labelStyle);
}

std::vector<QString> wrapped(const std::string& text, const TextStyle& style, double width) {
  std::vector<QString> lines;
  for (const QString& line : QString::fromStdString(text).split('\n')) addWrapped(line, style, width, lines);
  return lines;
}

TextStyle fitted(TextStyle style, const QString& text, double width) {
  const double natural = textWidth(text, style);
  if (natural > width) style.size *= std::max(kSmallest, width / natural);
  return style;
}

}  // namespace foxscope::figure
