#include "app/gui/text/tint_bar.h"

#include <QPainter>

#include "app/gui/text/tint_ramp.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

QString shownNumber(double value) {
  constexpr int kDigits = 3;
  return QString::number(value, 'g', kDigits).replace('-', QChar(0x2212));
}

}  // namespace

TintBar::TintBar(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Scale of the tint"));
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
}

void TintBar::setScale(const TintScale& scale, const QString& unit) {
  m_scale = scale;
  m_unit = unit;
  const bool logarithmic = scale.scaling == TintScaling::logarithmic;
  setToolTip(tr("%1 to %2, %3").arg(lowerText(), upperText(), logarithmic ? tr("logarithmic") : tr("linear")));
  setAccessibleDescription(toolTip());
  updateGeometry();
  update();
}

QString TintBar::lowerText() const {
  return m_scale.clipsBelow ? QStringLiteral("≤ ") + shownNumber(m_scale.lower) : shownNumber(m_scale.lower);
}

QString TintBar::upperText() const {
  const QString value =
      m_scale.clipsAbove ? QStringLiteral("≥ ") + shownNumber(m_scale.upper) : shownNumber(m_scale.upper);
  return m_unit.isEmpty() ? value : value + ' ' + m_unit;
}

QSize TintBar::sizeHint() const {
  const QFontMetrics metrics = fontMetrics();
  const int texts = metrics.horizontalAdvance(lowerText()) + metrics.horizontalAdvance(upperText());
  return {texts + metrics.averageCharWidth() * 16, metrics.height() + 2};
}

void TintBar::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const QFontMetrics metrics = fontMetrics();
  const int gap = metrics.averageCharWidth();
  const QRect bar = rect().adjusted(metrics.horizontalAdvance(lowerText()) + gap, 2,
                                    -metrics.horizontalAdvance(upperText()) - gap, -2);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter, lowerText());
  painter.drawText(rect(), Qt::AlignRight | Qt::AlignVCenter, upperText());
  const TintRamp ramp(palette(), m_scale.diverging ? TintRamp::Course::diverging : TintRamp::Course::sequential);
  for (int x = bar.left(); x <= bar.right(); ++x) {
    const double position = static_cast<double>(x - bar.left()) / std::max(1, bar.width() - 1);
    painter.fillRect(x, bar.top(), 1, bar.height(), ramp.at(position));
  }
  painter.setPen(lineColour(palette()));
  painter.drawRect(bar.adjusted(0, 0, -1, -1));
}

}  // namespace foxscope::gui
