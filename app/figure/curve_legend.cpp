#include "app/figure/curve_legend.h"

#include <algorithm>

#include "app/figure/curve_pen.h"
#include "app/figure/figure_measures.h"

namespace foxscope::figure {
namespace {

// In font sizes of the legend's letters.
constexpr double kSample = 2.4;
constexpr double kGap = 0.5;
constexpr double kSmallestLegend = 0.55;
const QColor kNote(90, 90, 90);
constexpr double kBetween = 1.2;  ///< from one entry to the next beside it

double entryWidth(const LegendEntry& entry, const TextStyle& style) {
  return (entry.curve == nullptr ? 0 : (kSample + kGap) * style.size) + textWidth(entry.text, style);
}

/// All entries, nowhere yet.
std::vector<LegendEntry> entriesOf(const Legend& legend) {
  std::vector<LegendEntry> entries;
  for (const Curve& curve : legend.curves) {
    if (!curve.name.empty()) entries.push_back({&curve, QString::fromStdString(curve.name), {}});
  }
  if (!legend.note.empty()) entries.push_back({nullptr, QString::fromStdString(legend.note), {}});
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

}  // namespace

TextStyle legendStyle(const Legend& legend, const TextStyle& style, double width) {
  double widest = 0;
  for (const LegendEntry& entry : entriesOf(legend)) widest = std::max(widest, entryWidth(entry, style));
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

std::vector<LegendEntry> flowingLegend(const Legend& legend, const QPointF& corner, double width,
                                       const TextStyle& style) {
  std::vector<LegendEntry> entries = entriesOf(legend);
  QPointF at = corner;
  for (LegendEntry& entry : entries) {
    entry.text = shortened(entry.text, style, entry.curve == nullptr ? width : width - (kSample + kGap) * style.size);
    const double wide = entryWidth(entry, style);
    if (at.x() > corner.x() && at.x() + wide > corner.x() + width) at = {corner.x(), at.y() + em::kLine * style.size};
    entry.place = {at.x(), at.y(), wide, em::kLine * style.size};
    at.rx() += wide + kBetween * style.size;
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
