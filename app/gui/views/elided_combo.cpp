#include "app/gui/views/elided_combo.h"

#include <algorithm>

#include <QStylePainter>

namespace foxscope::gui {
namespace {

constexpr int kMostShown = 24;  ///< characters of a chosen text

}  // namespace

ElidedCombo::ElidedCombo(QWidget* parent) : QComboBox(parent) {
  connect(this, &QComboBox::currentTextChanged, this, [this] {
    if (sizeAdjustPolicy() == AdjustToContents) updateGeometry();
  });
}

QSize ElidedCombo::sizeHint() const {
  if (sizeAdjustPolicy() != AdjustToContents) return QComboBox::sizeHint();
  QStyleOptionComboBox option;
  initStyleOption(&option);
  const QFontMetrics font = fontMetrics();
  constexpr int kRoom = 4;  // letters that lean, and paintEvent's own
  const int text = std::min(font.horizontalAdvance(currentText()) + kRoom, kMostShown * font.averageCharWidth());
  const QSize content(text, QComboBox::sizeHint().height());
  return {style()->sizeFromContents(QStyle::CT_ComboBox, &option, content, this).width(), content.height()};
}

QSize ElidedCombo::minimumSizeHint() const {
  return sizeAdjustPolicy() == AdjustToContents ? sizeHint() : QComboBox::minimumSizeHint();
}

void ElidedCombo::paintEvent(QPaintEvent* /*event*/) {
  QStylePainter painter(this);
  painter.setPen(palette().color(QPalette::Text));
  QStyleOptionComboBox option;
  initStyleOption(&option);
  painter.drawComplexControl(QStyle::CC_ComboBox, option);
  const int room = style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, this).width();
  option.currentText = option.fontMetrics.elidedText(option.currentText, Qt::ElideMiddle, room - 2);
  painter.drawControl(QStyle::CE_ComboBoxLabel, option);
}

}  // namespace foxscope::gui
