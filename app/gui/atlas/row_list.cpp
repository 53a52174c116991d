#include "app/gui/atlas/row_list.h"

#include <algorithm>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QResizeEvent>
#include <QScrollBar>

#include "app/gui/views/cell_table.h"

namespace foxscope::gui::atlas {

RowList::RowList(QWidget* parent) : QAbstractScrollArea(parent) {
  setFocusPolicy(Qt::StrongFocus);
  viewport()->setMouseTracking(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
}

QRect RowList::rowPlace(int row) const {
  return {0, titleHeight() + row * rowHeight() - verticalScrollBar()->value(), viewport()->width(), rowHeight()};
}

std::pair<int, int> RowList::rowsInSight() const {
  const int first = verticalScrollBar()->value() / rowHeight();
  return {first, std::min(count() - 1, first + viewport()->height() / rowHeight() + 1)};
}

int RowList::rowAt(const QPointF& place) const {
  if (place.y() < titleHeight()) return -1;
  const int row = (static_cast<int>(place.y()) - titleHeight() + verticalScrollBar()->value()) / rowHeight();
  return row < count() ? row : -1;
}

void RowList::showRows() {
  m_row = -1;
  verticalScrollBar()->setValue(0);
  followSize();
  announceCells(*this);
  viewport()->update();
}

void RowList::followSize() {
  const int room = std::max(1, viewport()->height() - titleHeight());
  verticalScrollBar()->setRange(0, std::max(0, count() * rowHeight() - room));
  verticalScrollBar()->setPageStep(room);
  verticalScrollBar()->setSingleStep(scrollStep());
}

void RowList::point(int row) {
  if (row == m_row) return;
  m_row = row;
  viewport()->update();
  emit hovered(row < 0 ? QString() : wordsOf(row));
}

void RowList::bringIntoSight(int row) {
  QScrollBar& bar = *verticalScrollBar();
  const int top = row * rowHeight();
  bar.setValue(std::min(top, std::max(bar.value(), top + rowHeight() - bar.pageStep())));
}

void RowList::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  const int kept = keptRow();
  const QScrollBar& bar = *verticalScrollBar();
  const int top = kept * rowHeight() - bar.value();
  const bool seen = kept >= 0 && top > -rowHeight() && top < bar.pageStep();
  followSize();
  if (seen) bringIntoSight(kept);
}

void RowList::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) viewport()->update();
}

void RowList::mouseMoveEvent(QMouseEvent* event) { point(rowAt(event->position())); }

void RowList::mouseReleaseEvent(QMouseEvent* event) {
  const int row = rowAt(event->position());
  if (event->button() == Qt::LeftButton && row >= 0) choose(row);
}

void RowList::leaveEvent(QEvent* /*event*/) { point(-1); }

void RowList::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if ((key == Qt::Key_Return || key == Qt::Key_Enter) && m_row >= 0) return choose(m_row);
  if ((key != Qt::Key_Up && key != Qt::Key_Down) || count() == 0) return QAbstractScrollArea::keyPressEvent(event);
  const int from = m_row >= 0 ? m_row : keptRow();
  point(std::clamp(from + (key == Qt::Key_Down ? 1 : -1), 0, count() - 1));
  announceCell(*this, m_row, 0);
  bringIntoSight(m_row);
}

}  // namespace foxscope::gui::atlas
