#pragma once

#include <QComboBox>
#include <QStylePainter>

namespace foxscope::gui {

/// A box whose text ends in dots where there is no room for it; styles cut it off in the middle of a letter.
class ElidedCombo : public QComboBox {
 public:
  using QComboBox::QComboBox;

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QStylePainter painter(this);
    painter.setPen(palette().color(QPalette::Text));
    QStyleOptionComboBox option;
    initStyleOption(&option);
    painter.drawComplexControl(QStyle::CC_ComboBox, option);
    const int room =
        style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, this).width() - 2;
    option.currentText = option.fontMetrics.elidedText(option.currentText, Qt::ElideRight, room);
    painter.drawControl(QStyle::CE_ComboBoxLabel, option);
  }
};

}  // namespace foxscope::gui
