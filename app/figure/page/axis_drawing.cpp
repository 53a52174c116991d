#include "app/figure/page/axis_drawing.h"

#include <algorithm>
#include <limits>

#include <QRegularExpression>

#include "app/figure/figure_measures.h"

namespace foxscope::figure {
namespace {

constexpr double kSmallest = 0.55;
constexpr double kBeyondEdge = 3;        ///< of a name in one line, font sizes
constexpr double kBetweenLabels = 0.5;   ///< font sizes
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

QString withFactor(const std::string& name, const Ticks& ticks) {
  const QString text = QString::fromStdString(name);
  return ticks.factor.empty() ? text : text + QStringLiteral(" (× ") + QString::fromStdString(ticks.factor) + ")";
}

}  // namespace

double widestLabel(const Ticks& ticks, const TextStyle& style) {
  double widest = 0;
  for (const Tick& tick : ticks.major) widest = std::max(widest, textWidth(QString::fromStdString(tick.label), style));
  return widest;
}

bool labelsApart(const Ticks& ticks, const std::function<double(double)>& position, double length,
                 const TextStyle& style) {
  double end = -std::numeric_limits<double>::infinity();
  for (const Tick& tick : ticks.major) {
    const double half = textWidth(QString::fromStdString(tick.label), style) / 2;
    const double at = position(tick.value) * length;
    if (at - half < end + kBetweenLabels * style.size) return false;
    end = at + half;
  }
  return true;
}

std::vector<QString> axisName(const std::string& name, const Ticks& ticks, double length, const TextStyle& style) {
  const QString whole = withFactor(name, ticks);
  if (whole.isEmpty()) return {};
  const double room = length + style.size;
  const qsizetype unit = whole.indexOf(QStringLiteral(" ("));
  if (unit <= 0 || textWidth(whole, style) <= room) return wrapped(whole.toStdString(), style, room);
  std::vector<QString> lines = wrapped(whole.left(unit).toStdString(), style, room);
  for (const QString& line : wrapped(whole.mid(unit + 1).toStdString(), style, room)) lines.push_back(line);
  return lines;
}

double axisNameDepth(const std::vector<QString>& lines, const TextStyle& style) {
  return lines.empty() ? 0 : (em::kPad + static_cast<double>(lines.size()) * em::kLine) * style.size;
}

void drawAxis(Canvas& canvas, const AxisEdge& edge, const Ticks& ticks, const std::string& name, double labels,
              const TextStyle& style) {
  const EdgePoints points{edge};
  const double fontSize = style.size;
  const QPen pen(Qt::black, em::kStroke * fontSize, Qt::SolidLine, Qt::FlatCap);
  const auto tickAt = [&](double value, double length) {
    const double position = edge.position(value);
    // Ticks begin within the frame's line, not at its inner edge: no dot inside is touched.
    canvas.line(points.at(position, em::kStroke * fontSize / 2), points.at(position, length * fontSize), pen);
    return position;
  };
  for (const double value : ticks.minor) tickAt(value, em::kMinorTick);
  for (const Tick& tick : ticks.major) {
    const double position = tickAt(tick.value, em::kTick);
    canvas.text(QString::fromStdString(tick.label), tickLabelPlace(points, position, fontSize), style);
  }
  const bool across = edge.side == AxisEdge::Side::bottom;
  const bool left = edge.side == AxisEdge::Side::left;
  const double length = across ? edge.rect.width() : edge.rect.height();
  const bool one = edge.name == AxisEdge::Name::oneLine;
  const std::vector<QString> lines = one ? std::vector{withFactor(name, ticks)} : axisName(name, ticks, length, style);
  const TextStyle nameStyle = fitted(style, lines, length + (one ? kBeyondEdge : 1) * fontSize);
  for (std::size_t index = 0; index < lines.size(); ++index) {
    // The first line is the upper one: left of the others on the left and on the right, as it is written upwards. Its
    // ascent is on the outer side of its baseline on the left, on the inner side elsewhere.
    const auto outward = static_cast<double>(left ? lines.size() - 1 - index : index);
    const double out = labels + (em::kTick + 2 * em::kPad + (left ? 0.25 : 0.95) + outward * em::kLine) * fontSize;
    canvas.text(lines[index], {points.at(0.5, out), Align::centre, across ? Direction::across : Direction::upwards},
                nameStyle);
  }
}

std::vector<QString> wrapped(const std::string& text, const TextStyle& style, double width) {
  std::vector<QString> lines;
  for (const QString& line : QString::fromStdString(text).split('\n')) addWrapped(line, style, width, lines);
  return lines;
}

std::vector<QString> titleLinesOf(const std::string& title, const TextStyle& style, double width,
                                  const std::vector<std::string>& beside) {
  static const QRegularExpression kNumber(QStringLiteral("\\d+"));
  static const QRegularExpression kHead(QStringLiteral("[Ll]ayer[ \\x{a0}](\\d+), head[ \\x{a0}](\\d+)"));
  // Panels beside one another are all brief or none is, whatever the numbers of their heads.
  const auto small = [&](const std::string& text) {
    const std::string alike = QString::fromStdString(text).replace(kNumber, QStringLiteral("00")).toStdString();
    return fitted(style, wrapped(alike, style, width), width).size < kLittleSmaller * style.size;
  };
  if (!small(title) && std::none_of(beside.begin(), beside.end(), small)) return wrapped(title, style, width);
  return wrapped(QString::fromStdString(title).replace(kHead, QStringLiteral("L\\1\u00a0H\\2")).toStdString(), style,
                 width);
}

TextStyle fitted(TextStyle style, const QString& text, double width) {
  const double natural = textWidth(text, style);
  if (natural > width) style.size *= std::max(kSmallest, width / natural);
  return style;
}

TextStyle fitted(TextStyle style, const std::vector<QString>& lines, double width) {
  // Once, by the widest: a line that is too wide at the smallest size makes the others no smaller.
  const auto wide = std::ranges::max_element(lines, {}, [&](const QString& line) { return textWidth(line, style); });
  return wide == lines.end() ? style : fitted(style, *wide, width);
}

void drawTitleAbove(Canvas& canvas, const QRectF& inner, const std::string& title, const TextStyle& style) {
  if (title.empty()) return;
  const auto lines = titleLinesOf(title, style, inner.width());
  const TextStyle own = fitted(style, lines, inner.width());
  double baseline = inner.top() - 0.5 * style.size - (static_cast<double>(lines.size()) - 1) * em::kLine * own.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.center().x(), baseline}, Align::centre}, own);
    baseline += em::kLine * own.size;
  }
}

}  // namespace foxscope::figure
