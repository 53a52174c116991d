#include "app/figure/curves/curve_legend.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "app/figure/curves/curve_pen.h"
#include "app/figure/figure_measures.h"
#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

// Length of a sample in font sizes of the legend's letters.
constexpr double kSample = 2.4;
constexpr double kGap = 0.5;
constexpr double kSmallestLegend = 0.55;
const QColor kNote(90, 90, 90);
constexpr double kBetween = 1.2;  ///< from one entry to the next beside it
/// Share of the width that `wrapped` is given, so that no line is longer than the width itself.
constexpr double kWithoutExcess = 0.85;

double entryWidth(const LegendEntry& entry, const TextStyle& style) {
  return (entry.curve == nullptr ? 0 : (kSample + kGap) * style.size) + textWidth(entry.text, style);
}

/// All entries without their places, the note in the lines that it has.
std::vector<LegendEntry> entriesOf(const Legend& legend) {
  std::vector<LegendEntry> entries;
  for (const Curve& curve : legend.curves) {
    if (!curve.name.empty()) entries.push_back({&curve, QString::fromStdString(curve.name), {}});
  }
  const QString note = QString::fromStdString(legend.note);
  for (const QString& line : note.split('\n', Qt::SkipEmptyParts)) entries.push_back({nullptr, line, {}});
  return entries;
}

/// The same for a legend of this width: a line of the note that is longer takes several.
std::vector<LegendEntry> entriesWithin(const Legend& legend, const TextStyle& style, double width) {
  std::vector<LegendEntry> entries;
  for (LegendEntry& entry : entriesOf(legend)) {
    if (entry.curve != nullptr) {
      entries.push_back(std::move(entry));
      continue;
    }
    for (QString& line : wrapped(entry.text.toStdString(), style, kWithoutExcess * width))
      entries.push_back({nullptr, std::move(line), {}});
  }
  return entries;
}

// The beginning and the end of a name that is too long.
QString shortened(const QString& whole, const TextStyle& style, double width) {
  QString text = whole;
  for (qsizetype kept = whole.size() - 1; kept > 1 && textWidth(text, style) > width; --kept) {
    text = whole.left((kept + 1) / 2) + QChar(0x2026) + whole.right(kept / 2);
  }
  return text;
}

/// Where the lines end that entries of these widths are broken into: as few lines as go, of those breaks one that
/// leaves the fewest alone on a line, and of these the one with the least sum of squares of what is left at the ends.
std::vector<std::size_t> lineEnds(const std::vector<double>& widths, double between, double width) {
  struct Break {
    int lines = 0;
    int alone = 0;
    double left = 0;
    std::size_t begin = 0;  ///< of the last line
    [[nodiscard]] auto cost() const { return std::tuple(lines, alone, left); }
  };
  std::vector<Break> best(1);  // of the first n entries
  for (std::size_t end = 1; end <= widths.size(); ++end) {
    std::optional<Break> found;
    double line = -between;
    for (std::size_t begin = end; begin-- > 0;) {
      line += between + widths[begin];
      if (line > width && begin + 1 < end) break;
      const double left = std::max(0.0, width - line);
      const int alone = begin + 1 == end ? 1 : 0;
      const Break one{best[begin].lines + 1, best[begin].alone + alone, best[begin].left + left * left, begin};
      if (!found || one.cost() < found->cost()) found = one;
    }
    best.push_back(*found);
  }
  std::vector<std::size_t> ends;
  for (std::size_t end = widths.size(); end > 0; end = best[end].begin) ends.insert(ends.begin(), end);
  return ends;
}

}  // namespace

TextStyle legendStyle(const Legend& legend, const TextStyle& style, double width) {
  double widest = 0;
  for (const LegendEntry& entry : entriesWithin(legend, style, width)) {
    widest = std::max(widest, entryWidth(entry, style));
  }
  return widest > width ? style.scaled(std::max(kSmallestLegend, width / widest)) : style;
}

QSizeF legendSize(const Legend& legend, const TextStyle& style) {
  QSizeF size(0, 0);
  for (const LegendEntry& entry : entriesOf(legend)) {
    size.setWidth(std::max(size.width(), entryWidth(entry, style) + 2 * kGap * style.size));
    size.setHeight(size.height() + em::kLine * style.size);
  }
  if (size.height() > 0) size.setHeight(size.height() + kGap * style.size);
  return size;
}

std::vector<LegendEntry> stackedLegend(const Legend& legend, const QRectF& box, const TextStyle& style) {
  std::vector<LegendEntry> entries = entriesOf(legend);
  double top = box.top() + kGap / 2 * style.size;
  for (LegendEntry& entry : entries) {
    entry.place = {box.left() + kGap * style.size, top, box.width(), em::kLine * style.size};
    top += em::kLine * style.size;
  }
  return entries;
}

double legendWidth(const Legend& legend, const TextStyle& style) {
  double width = -kBetween * style.size;
  for (const LegendEntry& entry : entriesOf(legend)) width += entryWidth(entry, style) + kBetween * style.size;
  return width;
}

std::vector<LegendEntry> flowingLegend(const Legend& legend, const QPointF& corner, double width,
                                       const TextStyle& style) {
  std::vector<LegendEntry> entries = entriesWithin(legend, style, width);
  std::vector<double> widths;
  for (LegendEntry& entry : entries) {
    entry.text = shortened(entry.text, style, entry.curve == nullptr ? width : width - (kSample + kGap) * style.size);
    widths.push_back(entryWidth(entry, style));
  }
  QPointF at = corner;
  std::size_t begin = 0;
  for (const std::size_t end : lineEnds(widths, kBetween * style.size, width)) {
    for (; begin < end; ++begin) {
      entries[begin].place = {at.x(), at.y(), widths[begin], em::kLine * style.size};
      at.rx() += widths[begin] + kBetween * style.size;
    }
    at = {corner.x(), at.y() + em::kLine * style.size};
  }
  return entries;
}

void drawLegendEntries(Canvas& canvas, std::span<const LegendEntry> entries, const TextStyle& style, double lineWidth) {
  for (const LegendEntry& entry : entries) {
    const double middle = entry.place.center().y();
    const double left = entry.place.left();
    if (entry.curve == nullptr) {
      TextStyle note = style;
      note.colour = kNote;
      canvas.text(entry.text, {{left, middle + kHalfDigit * style.size}}, note);
      continue;
    }
    const double right = left + kSample * style.size;
    if (entry.curve->line == LineStyle::points) {
      drawPoint(canvas, {(left + right) / 2, middle}, *entry.curve, lineWidth);
    } else {
      canvas.line({left, middle}, {right, middle}, penOf(colourOf(*entry.curve), lineWidth, entry.curve->line));
    }
    canvas.text(entry.text, {{right + kGap * style.size, middle + kHalfDigit * style.size}}, style);
  }
}

}  // namespace foxscope::figure
