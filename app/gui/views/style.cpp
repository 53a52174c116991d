#include "app/gui/views/style.h"

#include <QComboBox>
#include <QPainter>
#include <QProxyStyle>
#include <QStyleFactory>
#include <QStyleOption>
#include <QToolBar>
#include <QToolButton>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

class OutlinedFusion : public QProxyStyle {
 public:
  OutlinedFusion() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override {
    if (element == PE_PanelButtonTool && option->state.testFlag(State_On)) return drawChecked(*option, *painter);
    // The ring around it says which button has the keyboard (FocusRing); filled, it would look switched on.
    if (element == PE_FrameFocusRect && qobject_cast<const QToolButton*>(widget) != nullptr) return;
    QProxyStyle::drawPrimitive(element, option, painter, widget);
    if (element != PE_IndicatorCheckBox && element != PE_IndicatorRadioButton) return;
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(mutedTextColour(option->palette), 1));
    painter->setBrush(Qt::NoBrush);
    const QRectF box = QRectF(option->rect).adjusted(0.5, 0.5, -0.5, -0.5);
    if (element == PE_IndicatorRadioButton) {
      painter->drawEllipse(box);
    } else {
      painter->drawRoundedRect(box, 1.5, 1.5);
    }
    painter->restore();
  }

  // A click on a slider's groove goes there, as in any film.
  int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                QStyleHintReturn* returned) const override {
    if (hint == SH_Slider_AbsoluteSetButtons) return Qt::LeftButton;
    // A long list scrolls: as a menu it would be as high as the screen.
    const auto* box = qobject_cast<const QComboBox*>(widget);
    if (hint == SH_ComboBox_Popup && box != nullptr && box->count() > box->maxVisibleItems()) return 0;
    return QProxyStyle::styleHint(hint, option, widget, returned);
  }

  // A choice of a tool bar that is off is framed: without a frame it looks like a word.
  void drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                          const QWidget* widget) const override {
    if (control == CC_ToolButton && isChoice(widget) && !option->state.testFlag(State_On)) {
      painter->save();
      painter->setRenderHint(QPainter::Antialiasing);
      painter->setPen(QPen(lineColour(option->palette), 1));
      painter->drawRoundedRect(QRectF(option->rect).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
      painter->restore();
    }
    QProxyStyle::drawComplexControl(control, option, painter, widget);
  }

 private:
  static bool isChoice(const QWidget* widget) {
    const auto* button = qobject_cast<const QToolButton*>(widget);
    return button != nullptr && button->isCheckable() && qobject_cast<const QToolBar*>(button->parent()) != nullptr;
  }
  /// A button that is switched on is filled and framed in the accent's colour.
  static void drawChecked(const QStyleOption& option, QPainter& painter) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    QColor fill = option.palette.color(QPalette::Highlight);
    painter.setPen(QPen(fill, 1));
    fill.setAlphaF(isDark(option.palette) ? 0.45F : 0.18F);
    painter.setBrush(fill);
    painter.drawRoundedRect(QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
    painter.restore();
  }
};

}  // namespace

QStyle* makeStyle() { return new OutlinedFusion; }

}  // namespace foxscope::gui
