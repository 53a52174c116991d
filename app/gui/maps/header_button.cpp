#include "app/gui/maps/header_button.h"

#include <algorithm>
#include <map>

#include <QMenu>
#include <QPainterPath>
#include <QStyleOptionToolButton>
#include <QStylePainter>

namespace foxscope::gui {
namespace {

// Logical pixels.
constexpr int kBeside = 4;
constexpr int kArrow = 7;
constexpr int kBeforeArrow = 3;
constexpr int kAround = 3;  ///< above and below the text

constexpr int kFewest = 3;  ///< letters of a name that tell anything

/// The shortest form of a name.
QString leastOf(const QString& name) { return name.size() <= kFewest + 1 ? name : name.left(kFewest) + QChar(0x2026); }

}  // namespace

HeaderButton::HeaderButton(Weight weight, QMenu* menu) : m_weight(weight) {
  setAutoRaise(true);
  setPopupMode(InstantPopup);
  setMenu(menu);
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
}

void HeaderButton::setTexts(const QString& whole, const QString& brief) {
  if (whole == m_whole && brief == m_brief && m_title.empty()) return;
  m_title.clear();
  m_whole = whole;
  m_brief = brief;
  setText(whole);
  updateGeometry();
  update();
}

void HeaderButton::setTitle(const std::vector<TitlePart>& parts) {
  if (parts == m_title) return;
  QString brief;
  for (const TitlePart& part : parts) {
    if (part.kind == TitlePart::Kind::hint) continue;
    brief += part.kind == TitlePart::Kind::name ? leastOf(part.text) : part.text;
  }
  setTexts(textOf(parts), brief);
  m_title = parts;
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

QRect HeaderButton::textRoom() const { return rect().adjusted(kBeside, 0, -kBeside - kArrow - kBeforeArrow, 0); }

int HeaderButton::widthFor(const QString& text) const {
  const int content = m_picture.isNull() ? QFontMetrics(usedFont()).horizontalAdvance(text)
                                         : static_cast<int>(m_picture.deviceIndependentSize().width());
  return 2 * kBeside + content + kBeforeArrow + kArrow;
}

QSize HeaderButton::sizeHint() const { return {widthFor(m_whole), fontMetrics().height() + 2 * kAround}; }

QSize HeaderButton::minimumSizeHint() const {
  return {std::min(widthFor(m_brief), widthFor(m_whole)), sizeHint().height()};
}

QString HeaderButton::textIn(int room) const {
  const QFontMetrics metrics(usedFont());
  if (metrics.horizontalAdvance(m_whole) <= room) return m_whole;
  if (m_title.empty() && metrics.horizontalAdvance(m_brief) <= room) return m_brief;
  return m_title.empty() ? metrics.elidedText(m_brief, Qt::ElideRight, room) : titleIn(room);
}

// The rest stays as it is; the names share what it leaves, the shorter ones whole if that goes.
QString HeaderButton::titleIn(int width) const {
  const QFontMetrics metrics(usedFont());
  int room = width - 2;  // parts are rounded one by one
  std::vector<const TitlePart*> names;
  for (const TitlePart& part : m_title) {
    if (part.kind == TitlePart::Kind::name) {
      names.push_back(&part);
    } else if (part.kind == TitlePart::Kind::rest) {
      room -= metrics.horizontalAdvance(part.text);
    }
  }
  const bool alike = std::any_of(names.begin(), names.end(), [&](const TitlePart* name) {
    return name != names.front() && name->text.left(kFewest) == names.front()->text.left(kFewest);
  });
  std::ranges::stable_sort(names, {}, [&](const TitlePart* name) { return metrics.horizontalAdvance(name->text); });
  std::map<const TitlePart*, QString> cut;
  for (auto name = names.begin(); name != names.end(); ++name) {
    const int share = std::max(0, room) / static_cast<int>(names.end() - name);
    // Names that begin alike are told apart by their ends.
    QString text = metrics.elidedText((*name)->text, alike ? Qt::ElideMiddle : Qt::ElideRight, share);
    const QString least = leastOf((*name)->text);
    if (metrics.horizontalAdvance(text) < metrics.horizontalAdvance(least)) text = least;
    room -= metrics.horizontalAdvance(text);
    cut[*name] = text;
  }
  QString title;
  for (const TitlePart& part : m_title) {
    if (part.kind != TitlePart::Kind::hint) title += part.kind == TitlePart::Kind::name ? cut[&part] : part.text;
  }
  return metrics.horizontalAdvance(title) <= width ? title : metrics.elidedText(title, Qt::ElideRight, width);
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
  QRect room = textRoom();
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
