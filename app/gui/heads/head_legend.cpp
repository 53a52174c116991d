#include "app/gui/heads/head_legend.h"

#include <algorithm>

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

#include "app/figure/heads/head_label_colour.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {

HeadLegend::HeadLegend(QWidget* parent) : QWidget(parent) { setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed); }

void HeadLegend::show(const HeadColours& colours, const QString& title) {
  m_colours = colours;
  m_title = title;
  m_ofLabels = false;
  updateGeometry();
  update();
}

void HeadLegend::hideScale(const QString& title) {
  m_colours.reset();
  m_title = title;
  m_ofLabels = false;
  updateGeometry();
  update();
}

void HeadLegend::showLabels() {
  m_colours.reset();
  m_ofLabels = true;
  updateGeometry();
  update();
}

// Two columns of three.
QRect HeadLegend::labelPlace(HeadLabel label) const {
  constexpr int kRows = (kHeadLabels + 1) / 2;
  const int line = sizeHint().height() / kRows;
  const int index = static_cast<int>(label);
  return {index / kRows * width() / 2, index % kRows * line, width() / 2 - 2, line};
}

void HeadLegend::paintLabels(QPainter& painter) const {
  for (int number = 0; number < kHeadLabels; ++number) {
    const auto label = static_cast<HeadLabel>(number);
    const QRect place = labelPlace(label);
    const QRect patch(place.left(), place.top() + 1, place.height() - 2, place.height() - 2);
    const figure::Rgb rgb = figure::labelColour(label);
    painter.fillRect(patch, QColor(rgb.red, rgb.green, rgb.blue));
    painter.setPen(figure::letterOn(rgb) == figure::Letter::white ? Qt::white : Qt::black);
    painter.drawText(patch, Qt::AlignCenter, QString(QLatin1Char(text_of(label).letter)));
    painter.setPen(palette().color(QPalette::WindowText));
    const QRect name = place.adjusted(place.height() + 4, 0, 0, 0);
    painter.drawText(name, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(nameOf(label), Qt::ElideRight, name.width()));
  }
}

bool HeadLegend::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || !m_ofLabels) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  QToolTip::hideText();
  for (int number = 0; number < kHeadLabels; ++number) {
    const auto label = static_cast<HeadLabel>(number);
    if (!labelPlace(label).contains(help->pos())) continue;
    QToolTip::showText(help->globalPos(), nameOf(label) + QStringLiteral(": ") + meaningOf(label), this,
                       labelPlace(label));
  }
  return true;
}

int HeadLegend::titleHeight() const {
  const QRect room(0, 0, std::max(1, width()), QWIDGETSIZE_MAX);
  return std::max(fontMetrics().height(), fontMetrics().boundingRect(room, Qt::TextWordWrap, m_title).height());
}

QSize HeadLegend::sizeHint() const {
  const int line = fontMetrics().height();
  // The height stays where a scale gives way to a line of words.
  const int scale = 2 * line + 6;
  if (m_ofLabels) return {200, (kHeadLabels + 1) / 2 * line + 6};
  return {200, m_colours ? titleHeight() + scale : std::max(line + scale, titleHeight())};
}

void HeadLegend::resizeEvent(QResizeEvent* /*event*/) { updateGeometry(); }

void HeadLegend::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  if (m_ofLabels) return paintLabels(painter);
  if (!m_colours) {
    painter.setPen(palette().color(QPalette::WindowText));
    painter.drawText(rect(), Qt::AlignLeft | Qt::AlignTop | Qt::TextWordWrap, m_title);
    return;
  }
  const int line = fontMetrics().height();
  const int title = titleHeight();
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(QRect(0, 0, width(), title), Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap, m_title);
  if (m_colours->empty()) return;
  const QRect bar(line / 2, title + 2, width() - line, line * 3 / 4);
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
