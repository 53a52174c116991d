#include "app/gui/views/style.h"

#include <QPainter>
#include <QProxyStyle>
#include <QStyleFactory>
#include <QStyleOption>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

class OutlinedFusion : public QProxyStyle {
 public:
  OutlinedFusion() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override {
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
};

}  // namespace

QStyle* makeStyle() { return new OutlinedFusion; }

}  // namespace foxscope::gui
