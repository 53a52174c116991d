#include "app/figure/curve_legend.h"

#include <algorithm>

#include "app/figure/curve_pen.h"
#include "app/figure/figure_measures.h"

namespace foxscope::figure {
namespace {

// In font sizes of the legend's letters.
constexpr double kSample = 2.4;
constexpr double kGap = 0.5;
constexpr double kSmallest = 0.55;
constexpr double kBetween = 1.2;  ///< from one entry to the next beside it

double entryWidth(const Curve& curve, const TextStyle& style) {
  return (kSample + kGap) * style.size + textWidth(QString::fromStdString(curve.name), style);
}

// The beginning and the end of a name that is too long.
QString shortened(const std::string& name, const TextStyle& style, double width) {
  const QString whole = QString::fromStdString(name);
  QString text = whole;
  for (qsizetype kept = whole.size() - 1; kept > 1 && textWidth(text, style) > width; --kept) {
    text = whole.left((kept + 1) / 2) + QChar(0x2026) + whole.right(kept / 2);
  }
  return text;
}

}  // namespace

TextStyle legendStyle(std::span<const Curve> curves, const TextStyle& style, double width) {
  double widest = 0;
  for (const Curve& curve : curves) {
    if (!curve.name.empty()) widest = std::max(widest, entryWidth(curve, style));
  }
  return widest > width ? style.scaled(std::max(kSmallest, width / widest)) : style;
}

QSizeF legendSize(std::span<const Curve> curves, const TextStyle& style) {
  QSizeF size(0, 0);
  for (const Curve& curve : curves) {
    if (curve.name.empty()) continue;
    size.setWidth(std::max(size.width(), entryWidth(curve, style) + 2 * kGap * style.size));
    size.setHeight(size.height() + em::kLine * style.size);
  }
  if (size.height() > 0) size.setHeight(size.height() + kGap * style.size);
  return size;
}

std::vector<LegendEntry> stackedLegend(std::span<const Curve> curves, const QRectF& box, const TextStyle& style) {
  std::vector<LegendEntry> entries;
  double top = box.top() + kGap / 2 * style.size;
  for (const Curve& curve : curves) {
    if (curve.name.empty()) continue;
    entries.push_back({&curve,
                       QString::fromStdString(curve.name),
                       {box.left() + kGap * style.size, top, box.width(), em::kLine * style.size}});
    top += em::kLine * style.size;
  }
  return entries;
}

std::vector<LegendEntry> flowingLegend(std::span<const Curve> curves, const QPointF& corner, double width,
                                       const TextStyle& style) {
  std::vector<LegendEntry> entries;
  QPointF at = corner;
  for (const Curve& curve : curves) {
    if (curve.name.empty()) continue;
    const QString text = shortened(curve.name, style, width - (kSample + kGap) * style.size);
    const double wide = (kSample + kGap) * style.size + textWidth(text, style);
    if (at.x() > corner.x() && at.x() + wide > corner.x() + width) at = {corner.x(), at.y() + em::kLine * style.size};
    entries.push_back({&curve, text, {at.x(), at.y(), wide, em::kLine * style.size}});
    at.rx() += wide + kBetween * style.size;
  }
  return entries;
}

void drawLegendEntries(Canvas& canvas, std::span<const LegendEntry> entries, const TextStyle& style, double lineWidth) {
  for (const LegendEntry& entry : entries) {
    const double middle = entry.place.center().y();
    const double left = entry.place.left();
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
