#include "app/gui/document/selection.h"

#include <algorithm>
#include <cassert>

#include <QThread>

namespace foxscope::gui {
namespace {

constexpr std::size_t kLongestHistory = 200;

}  // namespace

Cursor Selection::cursor() const {
  Cursor both = m_pin;
  if (m_hover.query) {
    both.query = m_hover.query;
    both.key = m_hover.key ? m_hover.key : m_pin.key;
  } else if (m_hover.key) {
    both.key = m_hover.key;
  }
  if (both.query && both.key && *both.key > *both.query) both.key.reset();
  return both;
}

void Selection::setHead(const HeadChoice& head) {
  assert(QThread::currentThread() == thread());
  if (head == m_head) return;
  m_head = head;
  emit headChanged();
}

void Selection::setPin(const Cursor& pin) {
  assert(QThread::currentThread() == thread());
  Cursor wanted = pin;
  if (wanted.query && wanted.key && *wanted.key > *wanted.query) wanted.key.reset();
  if (wanted == m_pin) return;
  m_pin = wanted;
  emit pinChanged();
}

void Selection::goTo(std::int64_t query, std::int64_t length) {
  pinQuery(query);
  View view = m_view;
  if (query >= view.rows.begin && query < view.rows.end) return;
  const std::int64_t size = view.rows.size();
  const std::int64_t begin = std::clamp<std::int64_t>(query - size / 2, 0, std::max<std::int64_t>(0, length - size));
  view.rows = {begin, std::min(length, begin + size)};
  endMovement();
  setView(view);
  endMovement();
}

void Selection::pinQuery(std::int64_t query) { setPin({query, m_pin.key}); }

void Selection::pinKey(std::int64_t key) {
  Cursor wanted{m_pin.query, key};
  // The key was asked for last: a query before it goes.
  if (wanted.query && *wanted.query < key) wanted.query.reset();
  setPin(wanted);
}

void Selection::setHover(const Cursor& hover) {
  assert(QThread::currentThread() == thread());
  if (hover == m_hover) return;
  m_hover = hover;
  emit hoverChanged();
}

void Selection::setLocks(const std::vector<Cursor>& locks) {
  assert(QThread::currentThread() == thread());
  if (locks == m_locks) return;
  m_locks = locks;
  emit locksChanged();
}

void Selection::setMarked(const std::vector<HeadChoice>& heads) {
  assert(QThread::currentThread() == thread());
  if (heads == m_marked) return;
  m_marked = heads;
  emit markedChanged();
}

void Selection::setView(const View& view) {
  assert(QThread::currentThread() == thread());
  if (view == m_view) return;
  if (!m_moving) {
    m_history.push_back(m_view);
    if (m_history.size() > kLongestHistory) m_history.erase(m_history.begin());
    m_moving = true;
  }
  m_view = view;
  emit viewChanged();
}

void Selection::endMovement() { m_moving = false; }

void Selection::goBack() {
  if (m_history.empty()) return;
  m_view = m_history.back();
  m_history.pop_back();
  m_moving = false;
  emit viewChanged();
}

void Selection::resetView(std::int64_t length) {
  m_history.clear();
  m_moving = false;
  const View all{{0, length}, {0, length}};
  if (all == m_view) return;
  m_view = all;
  emit viewChanged();
}

}  // namespace foxscope::gui
