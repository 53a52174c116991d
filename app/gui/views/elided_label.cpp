#include "app/gui/views/elided_label.h"

#include <QPainter>

namespace foxscope::gui {

ElidedLabel::ElidedLabel(QWidget* parent) : QLabel(parent) {
  setTextFormat(Qt::PlainText);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void ElidedLabel::setFullText(const QString& text) {
  setText(text);
  setToolTip(text);
}

void ElidedLabel::setWrapped(bool wrapped) {
  setWordWrap(wrapped);
  QSizePolicy policy(QSizePolicy::Ignored, wrapped ? QSizePolicy::Preferred : QSizePolicy::Fixed);
  policy.setHeightForWidth(wrapped);
  setSizePolicy(policy);
}

void ElidedLabel::paintEvent(QPaintEvent* event) {
  if (wordWrap()) return QLabel::paintEvent(event);
  QPainter painter(this);
  painter.setPen(palette().color(foregroundRole()));
  painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter, fontMetrics().elidedText(text(), Qt::ElideRight, width()));
}

QSize ElidedLabel::minimumSizeHint() const { return {0, fontMetrics().height()}; }

}  // namespace foxscope::gui
