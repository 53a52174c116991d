#include "app/gui/maps/header_button.h"

#include <algorithm>

#include <QMenu>
#include <QPainterPath>
#include <QStyleOptionToolButton>
#include <QStylePainter>

namespace foxscope::gui {
namespace {

// Logical pixels.
constexpr int kBeside = 5;
constexpr int kArrow = 7;
constexpr int kBeforeArrow = 4;
constexpr int kAround = 3;  ///< above and below the text

}  // namespace

HeaderButton::HeaderButton(Weight weight, QMenu* menu) : m_weight(weight) {
  setAutoRaise(true);
  setPopupMode(InstantPopup);
  setMenu(menu);
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
}

void HeaderButton::setTexts(const QString& whole, const QString& brief) {
  if (whole == m_whole && brief == m_brief) return;
  m_whole = whole;
  m_brief = brief;
  setText(whole);
  updateGeometry();
  update();
}

void HeaderButton::setPicture(const QPixmap& picture) {
  m_picture = picture;
  updateGeometry();
  update();
}

QFont HeaderButton::usedFont() const {
  QFont used = font();
  if (m_weight == Weight::title) used.setWeight(QFont::DemiBold);
  return used;
}

int HeaderButton::widthFor(const QString& text) const {
  const int content = m_picture.isNull() ? QFontMetrics(usedFont()).horizontalAdvance(text)
                                         : static_cast<int>(m_picture.deviceIndependentSize().width());
  return 2 * kBeside + content + kBeforeArrow + kArrow;
}

QSize HeaderButton::sizeHint() const { return {widthFor(m_whole), fontMetrics().height() + 2 * kAround}; }

QSize HeaderButton::minimumSizeHint() const {
  // Of a long title the beginning says enough.
  constexpr int kLetters = 14;
  const int least = widthFor({}) + kLetters * fontMetrics().averageCharWidth();
  const int brief = widthFor(m_brief);
  return {m_weight == Weight::title ? std::min(brief, least) : brief, sizeHint().height()};
}

QString HeaderButton::textIn(int room) const {
  const QFontMetrics metrics(usedFont());
  if (metrics.horizontalAdvance(m_whole) <= room || m_brief.isEmpty()) return m_whole;
  constexpr int kFewest = 4;  // letters of a name that tell anything
  const int before = room - metrics.horizontalAdvance(m_brief);
  if (m_whole.endsWith(m_brief) && before >= kFewest * metrics.averageCharWidth()) {
    return metrics.elidedText(m_whole.chopped(m_brief.size()).trimmed(), Qt::ElideRight, before - 2) + m_brief;
  }
  return metrics.elidedText(m_brief, Qt::ElideRight, room);
}

void HeaderButton::paintEvent(QPaintEvent* /*event*/) {
  QStylePainter painter(this);
  QStyleOptionToolButton option;
  initStyleOption(&option);
  // Words and arrow are placed here; the style draws the ground.
  option.text.clear();
  option.icon = {};
  option.features &= ~QStyleOptionToolButton::HasMenu;
  painter.drawComplexControl(QStyle::CC_ToolButton, option);
  QRect room = rect().adjusted(kBeside, 0, -kBeside - kArrow - kBeforeArrow, 0);
  if (m_picture.isNull()) {
    const QFontMetrics metrics(usedFont());
    const QString shown = textIn(room.width());
    painter.setFont(usedFont());
    painter.setPen(palette().color(isEnabled() ? QPalette::Active : QPalette::Disabled, QPalette::ButtonText));
    painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextSingleLine, shown);
    room.setWidth(metrics.horizontalAdvance(shown));
  } else {
    const QSizeF size = m_picture.deviceIndependentSize();
    painter.drawPixmap(QPointF(room.left(), (height() - size.height()) / 2), m_picture);
    room.setWidth(static_cast<int>(size.width()));
  }
  painter.setRenderHint(QPainter::Antialiasing);
  const double left = room.left() + room.width() + kBeforeArrow;
  const double middle = height() / 2.0;
  QPainterPath arrow(QPointF(left, middle - 1.5));
  arrow.lineTo(left + kArrow / 2.0, middle + 2);
  arrow.lineTo(left + kArrow, middle - 1.5);
  QColor colour = palette().color(QPalette::ButtonText);
  colour.setAlphaF(0.6F);
  painter.setPen(QPen(colour, 1.2));
  painter.drawPath(arrow);
}

}  // namespace foxscope::gui
