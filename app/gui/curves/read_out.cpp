#include "app/gui/curves/read_out.h"

#include <algorithm>

#include <QMouseEvent>
#include <QPainter>
#include <QSizePolicy>

#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

constexpr double kSwatch = 1.6;  // lines of text
constexpr double kGap = 0.4;
constexpr double kHiddenOpacity = 0.35;

}  // namespace

ReadOut::ReadOut(QWidget* parent) : QWidget(parent) {
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  setMouseTracking(true);
}

void ReadOut::setPlace(const QString& place) {
  if (place == m_place) return;
  m_place = place;
  setAccessibleName(place);
  update();
}

void ReadOut::setEntries(const std::vector<Entry>& entries) {
  const auto sameName = [](const Entry& a, const Entry& b) { return a.name == b.name; };
  const bool sameNames = std::equal(entries.begin(), entries.end(), m_entries.begin(), m_entries.end(), sameName);
  m_entries = entries;
  if (!sameNames) updateGeometry();
  QString all = m_place;
  for (const Entry& entry : entries) all += '\n' + entry.name + (entry.value.isEmpty() ? "" : ": " + entry.value);
  if (!entries.empty()) all += '\n' + tr("Click a name to hide or show its curve");
  setToolTip(all);
  update();
}

// Room for a value is kept whether there is one or not, and more for one that is longer.
int ReadOut::widthOf(const Entry& entry) const {
  const int line = fontMetrics().height();
  const int value = std::max(fontMetrics().horizontalAdvance(QStringLiteral("  −0.0000 nats (mean of 101: −0.00000)")),
                             fontMetrics().horizontalAdvance(QStringLiteral("  ") + entry.value));
  return static_cast<int>((kSwatch + 3 * kGap) * line) + fontMetrics().horizontalAdvance(entry.name) + value;
}

std::vector<QPoint> ReadOut::layOut(int width) const {
  const int line = fontMetrics().height();
  std::vector<QPoint> corners;
  QPoint next(0, line);
  for (const Entry& entry : m_entries) {
    const int wanted = m_oneLine ? shareOf(width) : widthOf(entry);
    if (!m_oneLine && next.x() > 0 && next.x() + wanted > width) next = {0, next.y() + line};
    corners.push_back(next);
    if (!m_oneLine || isShown(entry)) next.rx() += wanted;
  }
  return corners;
}

int ReadOut::heightForWidth(int width) const {
  const auto corners = layOut(width);
  return (corners.empty() ? 0 : corners.back().y()) + fontMetrics().height() + 2;
}

QSize ReadOut::sizeHint() const { return {fontMetrics().averageCharWidth() * 60, 2 * fontMetrics().height() + 2}; }

QSize ReadOut::minimumSizeHint() const { return {fontMetrics().averageCharWidth() * 12, sizeHint().height()}; }

int ReadOut::shareOf(int width) const {
  const auto shown =
      std::count_if(m_entries.begin(), m_entries.end(), [this](const Entry& one) { return isShown(one); });
  return width / std::max(1, static_cast<int>(shown));
}

int ReadOut::textWidth(const Entry& entry, const QPoint& corner) const {
  const auto indent = static_cast<int>((kSwatch + kGap) * fontMetrics().height());
  if (!m_oneLine) return std::max(0, width() - corner.x() - indent);
  return std::max(0, std::min(widthOf(entry), shareOf(width())) - indent - fontMetrics().averageCharWidth());
}

void ReadOut::setWithoutRoom(const std::set<QString>& names) {
  if (names == m_withoutRoom) return;
  m_withoutRoom = names;
  update();
}

QString ReadOut::roomText() const {
  QStringList names;
  for (const Entry& entry : m_entries) {
    if (!isShown(entry)) names += entry.name;
  }
  return names.empty() ? QString() : tr("%1: no room, make the curves higher").arg(names.join(QStringLiteral(", ")));
}

QString ReadOut::shortRoomText() const {
  const auto shown = [this](const Entry& entry) { return isShown(entry); };
  const auto hidden = static_cast<int>(std::ssize(m_entries) - std::ranges::count_if(m_entries, shown));
  return hidden == 0 ? QString() : tr("%1 more: make the curves higher").arg(hidden);
}

QString ReadOut::shownValue(std::size_t number) const {
  const Entry& entry = m_entries[number];
  const int room = textWidth(entry, layOut(width())[number]);
  if (!m_oneLine || fontMetrics().horizontalAdvance(entry.name + ' ' + entry.value) <= room) return entry.value;
  return entry.value.section(QStringLiteral(" ("), 0, 0);
}

void ReadOut::setOneLine(bool oneLine) {
  if (oneLine == m_oneLine) return;
  m_oneLine = oneLine;
  updateGeometry();
  update();
}

QRect ReadOut::entryRect(std::size_t entry) const {
  if (!isShown(m_entries[entry])) return {};
  const int line = fontMetrics().height();
  const QPoint corner = layOut(width())[entry];
  const int text =
      std::min(textWidth(m_entries[entry], corner), fontMetrics().horizontalAdvance(m_entries[entry].name));
  return {corner, QSize(static_cast<int>((kSwatch + kGap) * line) + text, line)};
}

std::optional<std::size_t> ReadOut::entryAt(const QPoint& place) const {
  for (std::size_t entry = 0; entry < m_entries.size(); ++entry) {
    if (entryRect(entry).contains(place)) return entry;
  }
  return std::nullopt;
}

void ReadOut::toggle(const QString& name) {
  if (m_hidden.erase(name) == 0) m_hidden.insert(name);
  update();
  emit toggled(name);
}

void ReadOut::mousePressEvent(QMouseEvent* event) {
  const auto entry = entryAt(event->position().toPoint());
  if (event->button() != Qt::LeftButton || !entry) return QWidget::mousePressEvent(event);
  toggle(m_entries[*entry].name);
}

void ReadOut::mouseMoveEvent(QMouseEvent* event) {
  if (entryAt(event->position().toPoint())) {
    setCursor(Qt::PointingHandCursor);
  } else {
    unsetCursor();
  }
}

void ReadOut::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const int line = fontMetrics().height();
  const int ascent = fontMetrics().ascent();
  QString room = roomText();
  if (fontMetrics().horizontalAdvance(room) > width() / 2) room = shortRoomText();
  room = fontMetrics().elidedText(room, Qt::ElideRight, width() / 2);
  const int noted = room.isEmpty() ? 0 : fontMetrics().horizontalAdvance(room) + line;
  painter.setPen(mutedTextColour(palette()));
  painter.drawText(width() - noted + line, ascent, room);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(0, ascent, fontMetrics().elidedText(m_place, Qt::ElideMiddle, width() - noted));
  const auto corners = layOut(width());
  for (std::size_t index = 0; index < m_entries.size(); ++index) {
    const Entry& entry = m_entries[index];
    if (!isShown(entry)) continue;
    const QPoint corner = corners[index];
    const int swatch = static_cast<int>(kSwatch * line);
    painter.setOpacity(isHidden(entry.name) ? kHiddenOpacity : 1);
    painter.setPen(QPen(entry.colour, 2.5, entry.style, Qt::FlatCap));
    painter.drawLine(corner.x(), corner.y() + line / 2, corner.x() + swatch, corner.y() + line / 2);
    if (entry.second.isValid()) {
      // Two dashes and two gaps.
      QPen dashes(entry.second, 2.5, Qt::CustomDashLine, Qt::FlatCap);
      const double dash = swatch / 4.0 / dashes.widthF();
      dashes.setDashPattern({dash, dash});
      painter.setPen(dashes);
      painter.drawLine(corner.x(), corner.y() + line / 2, corner.x() + swatch, corner.y() + line / 2);
    }
    const int x = corner.x() + swatch + static_cast<int>(kGap * line);
    painter.setPen(mutedTextColour(palette()));
    const int textRoom = textWidth(entry, corner);
    const QString words = shownValue(index);
    // The value is what was asked for: a name gives way to it where both have one line.
    const int value = m_oneLine && !words.isEmpty() ? fontMetrics().horizontalAdvance(' ' + words) : 0;
    QString name = fontMetrics().elidedText(entry.name, Qt::ElideMiddle, std::max(0, textRoom - value));
    if (value > 0 && name.size() <= 1 && name != entry.name) name.clear();
    painter.drawText(x, corner.y() + ascent, name);
    const int named = name.isEmpty() ? 0 : fontMetrics().horizontalAdvance(name + ' ');
    painter.setPen(palette().color(QPalette::WindowText));
    painter.drawText(x + named, corner.y() + ascent,
                     fontMetrics().elidedText(words, Qt::ElideRight, std::max(0, textRoom - named)));
  }
}

}  // namespace foxscope::gui::curves
