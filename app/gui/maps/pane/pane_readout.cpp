#include "app/gui/maps/pane/pane_readout.h"

#include <algorithm>
#include <numeric>

#include <QFontMetrics>
#include <QPainter>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr double kReadoutSize = 0.9;  ///< of the font
// Width of the value in widths of a figure.
constexpr double kValueColumn = 9.5;
constexpr double kPlaceColumn = 16;
constexpr double kLeastPlace = 6;
constexpr double kDistanceColumn = 9;

}  // namespace

PaneReadout::PaneReadout(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void PaneReadout::setReading(const PaneReading& reading) {
  if (reading == m_reading) return;
  m_reading = reading;
  setToolTip(reading.whole);
  setAccessibleName(reading.whole.isEmpty() ? tr("Read-out") : reading.whole);
  update();
}

QFont PaneReadout::usedFont() const {
  QFont used = font();
  used.setPointSizeF(used.pointSizeF() * kReadoutSize);
  return used;
}

QSize PaneReadout::sizeHint() const {
  const QFontMetrics metrics(usedFont());
  return {static_cast<int>(kValueColumn * metrics.horizontalAdvance(QLatin1Char('0'))), metrics.height()};
}

int PaneReadout::roomyWidth() const {
  const QFontMetrics metrics(usedFont());
  return static_cast<int>((kValueColumn + 2 * kPlaceColumn) * metrics.horizontalAdvance(QLatin1Char('0')));
}

QSize PaneReadout::minimumSizeHint() const { return {0, sizeHint().height()}; }

std::array<int, 4> PaneReadout::columns() const {
  const double figure = QFontMetricsF(usedFont()).horizontalAdvance(QLatin1Char('0'));
  const auto value = std::min(width(), static_cast<int>(kValueColumn * figure));
  int left = width() - value;
  const auto distance = static_cast<int>(kDistanceColumn * figure);
  const auto place = static_cast<int>(kPlaceColumn * figure);
  if (left >= distance + 2 * place) return {value, place, place, distance};
  const int half = std::min(left / 2, place);
  if (half < kLeastPlace * figure) return {value, 0, 0, 0};
  return {value, half, half, 0};
}

void PaneReadout::paintEvent(QPaintEvent* /*event*/) {
  if (m_reading.whole.isEmpty()) return;
  QPainter painter(this);
  const std::array<int, 4> widths = columns();
  const std::array<const QString*, 4> texts{&m_reading.value, &m_reading.query, &m_reading.key, &m_reading.distance};
  int x = width() - std::accumulate(widths.begin(), widths.end(), 0);
  for (std::size_t n = 0; n < widths.size(); ++n) {
    QFont used = usedFont();
    if (n == 0) used.setWeight(QFont::DemiBold);
    painter.setFont(used);
    painter.setPen(n == 0 ? palette().color(QPalette::WindowText) : mutedTextColour(palette()));
    const QFontMetrics metrics(used);
    const int gap = metrics.horizontalAdvance(QLatin1Char(' '));
    const QRect column(x, 0, std::max(0, widths[n] - gap), height());
    // A position without its token says more than one with the half of it.
    const bool fits = metrics.horizontalAdvance(*texts[n]) <= column.width();
    const QString text = fits || n == 0 ? *texts[n] : texts[n]->section(' ', 0, 1);
    painter.drawText(column, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextSingleLine,
                     metrics.elidedText(text, Qt::ElideRight, column.width()));
    x += widths[n];
  }
}

}  // namespace foxscope::gui
