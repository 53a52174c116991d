#include "app/gui/views/flow_layout.h"

#include <algorithm>
#include <utility>

#include "backend/base/index.h"

namespace foxscope::gui {

FlowLayout::~FlowLayout() {
  for (QLayoutItem* item : m_items) delete item;
}

QLayoutItem* FlowLayout::itemAt(int index) const {
  return index >= 0 && index < count() ? m_items[index_of(index)] : nullptr;
}

QLayoutItem* FlowLayout::takeAt(int index) {
  QLayoutItem* item = itemAt(index);
  if (item != nullptr) m_items.erase(m_items.begin() + index);
  return item;
}

QSize FlowLayout::sizeHint() const {
  QSize size(0, 0);
  for (const QLayoutItem* item : m_items) {
    if (item->isEmpty()) continue;
    const QSize hint = item->sizeHint();
    size = {size.width() + (size.width() > 0 ? m_gap : 0) + hint.width(), std::max(size.height(), hint.height())};
  }
  return size;
}

QSize FlowLayout::minimumSize() const {
  QSize size(0, 0);
  for (const QLayoutItem* item : m_items) {
    if (!item->isEmpty()) size = size.expandedTo(item->minimumSize());
  }
  return size;
}

void FlowLayout::setGeometry(const QRect& place) {
  QLayout::setGeometry(place);
  arrange(place, Act::place);
}

int FlowLayout::arrange(const QRect& place, Act act) const {
  int top = place.top();
  for (auto first = m_items.begin(); first != m_items.end();) {
    std::vector<std::pair<QLayoutItem*, QSize>> row;
    int width = 0;
    int height = 0;
    auto next = first;
    for (; next != m_items.end(); ++next) {
      if ((*next)->isEmpty()) continue;
      const QSize hint = (*next)->sizeHint();
      const int wide = std::clamp(hint.width(), 0, std::max(0, place.width()));
      if (!row.empty() && width + m_gap + wide > place.width()) break;
      width += wide + (row.empty() ? 0 : m_gap);
      height = std::max(height, hint.height());
      row.emplace_back(*next, QSize(wide, hint.height()));
    }
    first = next;
    if (row.empty()) break;
    if (top > place.top()) top += m_gapOfRows;
    int left = place.left();
    int right = place.right() + 1;
    for (const auto& [item, size] : row) {
      const bool atEnd = item->alignment().testFlag(Qt::AlignRight);
      const int x = atEnd ? right - size.width() : left;
      if (act == Act::place) item->setGeometry({{x, top + (height - size.height()) / 2}, size});
      if (atEnd) {
        right = x - m_gap;
      } else {
        left += size.width() + m_gap;
      }
    }
    top += height;
  }
  return top - place.top();
}

}  // namespace foxscope::gui
