#include "app/gui/heads/head_legend.h"

#include <QPainter>

#include "app/gui/views/theme.h"

namespace foxscope::gui {

HeadLegend::HeadLegend(QWidget* parent) : QWidget(parent) { setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed); }

void HeadLegend::show(const HeadColours& colours, const QString& title) {
  m_colours = colours;
  m_title = title;
  update();
}

void HeadLegend::hideScale(const QString& title) {
  m_colours.reset();
  m_title = title;
  update();
}

QSize HeadLegend::sizeHint() const { return {200, fontMetrics().height() * 3 + 6}; }

void HeadLegend::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const int line = fontMetrics().height();
  const QString title = fontMetrics().elidedText(m_title, Qt::ElideRight, width());
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(QRect(0, 0, width(), line), Qt::AlignLeft | Qt::AlignVCenter, title);
  if (!m_colours || m_colours->empty()) return;
  const QRect bar(line / 2, line + 2, width() - line, line * 3 / 4);
  for (int x = 0; x < bar.width(); ++x) {
    painter.fillRect(bar.left() + x, bar.top(), 1, bar.height(), m_colours->at(x / (bar.width() - 1.0)));
  }
  painter.setPen(lineColour(palette()));
  painter.drawRect(bar.adjusted(0, 0, -1, -1));
  painter.setPen(mutedTextColour(palette()));
  int taken = -line;
  for (const HeadColours::Tick& tick : m_colours->ticks()) {
    const int x = bar.left() + static_cast<int>(tick.place * (bar.width() - 1));
    painter.drawLine(x, bar.bottom(), x, bar.bottom() + 3);
    const int room = fontMetrics().horizontalAdvance(tick.text);
    const int left = std::clamp(x - room / 2, 0, std::max(0, width() - room));
    if (left < taken + line / 2) continue;
    painter.drawText(QPoint(left, bar.bottom() + 4 + fontMetrics().ascent()), tick.text);
    taken = left + room;
  }
}

}  // namespace foxscope::gui
