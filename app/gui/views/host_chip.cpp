#include "app/gui/views/host_chip.h"

#include <algorithm>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kLetters = 16;
constexpr int kInside = 5;  // pixels beside the name
constexpr int kOutside = 4;

}  // namespace

int hostChipWidth(const QString& host, const QFontMetrics& metrics) {
  if (host.isEmpty()) return 0;
  // The advance is rounded: without one pixel more a name that fits may be elided.
  const int name = std::min(metrics.horizontalAdvance(host) + 1, kLetters * metrics.averageCharWidth());
  return name + 2 * kInside + 2 * kOutside;
}

void paintHostChip(QPainter& painter, const QRect& place, const QString& host, const QPalette& palette) {
  const QFontMetrics metrics = painter.fontMetrics();
  const int width = hostChipWidth(host, metrics);
  if (width == 0) return;
  QRect outline(place.right() - width + kOutside, 0, width - 2 * kOutside, metrics.height());
  outline.moveCenter({outline.center().x(), place.center().y()});
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(mutedTextColour(palette));
  const double radius = outline.height() / 2.0;
  painter.drawRoundedRect(QRectF(outline).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius);
  painter.drawText(outline.adjusted(kInside, 0, -kInside, 0), Qt::AlignCenter,
                   metrics.elidedText(host, Qt::ElideMiddle, outline.width() - 2 * kInside));
  painter.restore();
}

}  // namespace foxscope::gui
