#include "app/gui/maps/pane_line.h"

#include <QFontMetrics>
#include <QPainter>

#include "app/gui/views/theme.h"

namespace foxscope::gui {

PaneLine::PaneLine(Weight weight, QWidget* parent) : QWidget(parent), m_weight(weight) {
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

QFont PaneLine::usedFont() const {
  QFont used = font();
  used.setBold(m_weight == Weight::bold);
  if (m_weight != Weight::bold) used.setPointSizeF(used.pointSizeF() * 0.9);
  return used;
}

void PaneLine::setText(const QString& text) {
  if (text == m_text) return;
  m_text = text;
  setToolTip(text);
  setAccessibleName(text);
  update();
}

QSize PaneLine::sizeHint() const {
  const QFontMetrics metrics(usedFont());
  return {metrics.horizontalAdvance(m_text), metrics.height()};
}

QSize PaneLine::minimumSizeHint() const { return {0, QFontMetrics(usedFont()).height()}; }

void PaneLine::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setFont(usedFont());
  painter.setPen(m_weight == Weight::muted ? mutedTextColour(palette()) : palette().color(QPalette::WindowText));
  painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter | Qt::TextSingleLine,
                   QFontMetrics(usedFont()).elidedText(m_text, Qt::ElideRight, width()));
}

}  // namespace foxscope::gui
