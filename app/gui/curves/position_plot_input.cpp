// What the mouse and the keys do to a PositionPlot.
#include <algorithm>
#include <cmath>
#include <utility>

#include <QApplication>
#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QRubberBand>
#include <QWheelEvent>

#include "app/gui/curves/position_plot.h"
#include "app/gui/views/wheel_zoom.h"

namespace foxscope::gui::curves {
namespace {

constexpr double kZoom = 1.25;       // a key that zooms
constexpr double kStep = 0.1;        // of the range, a key that pans
constexpr double kSmallestBand = 4;  // pixels; smaller ones are slips of the hand

}  // namespace

void PositionPlot::setRange(const Range& range) {
  if (m_axis.length == 0) return;
  View view = m_runs.selection().view();
  (m_axis.isOfKeys() ? view.columns : view.rows) = range;
  m_runs.selection().setView(view);
}

void PositionPlot::fit() {
  const Range all{0, m_runs.length()};
  if (all.size() == 0) return;
  Selection& selection = m_runs.selection();
  selection.endMovement();
  selection.setView({all, all});
  selection.endMovement();
}

Cursor PositionPlot::cursorAt(std::int64_t position) const {
  if (!m_axis.line) return {position, std::nullopt};
  const MapLine& line = *m_axis.line;
  const Range range = line.positions(m_axis.length);
  const std::int64_t place = std::clamp(position, range.begin, std::max(range.begin, range.end - 1));
  const Cursor& pin = m_runs.selection().pin();
  // What all pairs of the line have in common is pinned, or was hovered elsewhere.
  switch (line.along) {
    case MapLine::Along::row:
      return {pin.query ? std::nullopt : std::optional(line.at), place};
    case MapLine::Along::column:
      return {place, pin.key ? std::nullopt : std::optional(line.at)};
    case MapLine::Along::diagonal:
      break;
  }
  return {place, line.key(place)};
}

// On a diagonal a click pins the pair, so that the distance stays.
void PositionPlot::click(std::int64_t position, Qt::KeyboardModifiers modifiers) {
  Selection& selection = m_runs.selection();
  if (modifiers.testFlag(Qt::ShiftModifier)) return selection.pinKey(position);
  if (!m_axis.line || m_axis.line->along == MapLine::Along::row) return selection.pinQuery(position);
  const Cursor at = cursorAt(position);
  if (at.key) return selection.setPin(at);
  selection.pinQuery(*at.query);
}

void PositionPlot::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::RightButton && m_drawn > 0 && !m_press) {
    m_bandFrom = event->position().x();
    return showBand(*m_bandFrom);
  }
  if (event->button() != Qt::LeftButton || m_drawn == 0 || m_bandFrom) return QWidget::mousePressEvent(event);
  m_press = event->position();
  m_pressRange = range();
  m_panning = false;
  m_runs.selection().endMovement();
}

void PositionPlot::mouseMoveEvent(QMouseEvent* event) {
  if (m_drawn == 0) return;
  if (m_bandFrom) return showBand(event->position().x());
  if (!m_press) return m_runs.selection().setHover(cursorAt(positionAt(event->position().x())));
  const double by = event->position().x() - m_press->x();
  if (std::abs(by) >= QApplication::startDragDistance()) m_panning = true;
  if (!m_panning) return;
  setCursor(Qt::ClosedHandCursor);
  const double across = pixelsAcross();
  if (across > 0) setRange(m_axis.moved(m_pressRange, -by / across));
}

void PositionPlot::showBand(double to) {
  if (m_band == nullptr) m_band = new QRubberBand(QRubberBand::Rectangle, this);
  const QRect room = stripsRect();
  const auto inside = [&](double x) { return std::clamp(static_cast<int>(x), room.left(), room.right()); };
  m_band->setGeometry(QRect(QPoint(inside(*m_bandFrom), room.top()), QPoint(inside(to), room.bottom())).normalized());
  m_band->show();
}

// Every position that the band touches.
void PositionPlot::finishBand(const QPointF& place) {
  const double to = place.x();
  const double from = *std::exchange(m_bandFrom, std::nullopt);
  m_band->hide();
  if (std::abs(to - from) < kSmallestBand) {
    emit menuAsked(mapToGlobal(place).toPoint());
    return;
  }
  const auto [first, last] = std::minmax({positionAt(from), positionAt(to)});
  Selection& selection = m_runs.selection();
  selection.endMovement();
  setRange({first, last + 1});
  selection.endMovement();
}

// The right button zooms when it is drawn; a click is told apart when it is let go.
void PositionPlot::contextMenuEvent(QContextMenuEvent* event) {
  if (event->reason() != QContextMenuEvent::Mouse || m_drawn == 0) emit menuAsked(event->globalPos());
}

void PositionPlot::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() == Qt::RightButton && m_bandFrom) return finishBand(event->position());
  if (event->button() != Qt::LeftButton || !m_press) return QWidget::mouseReleaseEvent(event);
  m_press.reset();
  unsetCursor();
  Selection& selection = m_runs.selection();
  if (m_panning) {
    m_panning = false;
    selection.endMovement();
    return;
  }
  m_pinBeforeClick = selection.pin();
  click(positionAt(event->position().x()), event->modifiers());
}

// The first click of the two pinned something, which was not meant.
void PositionPlot::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QWidget::mouseDoubleClickEvent(event);
  m_press.reset();
  m_runs.selection().setPin(m_pinBeforeClick);
  fit();
}

void PositionPlot::leaveEvent(QEvent* event) {
  QWidget::leaveEvent(event);
  m_runs.selection().setHover({});
}

void PositionPlot::wheelEvent(QWheelEvent* event) {
  if (m_drawn == 0) return event->ignore();
  event->accept();
  const QPoint turned = event->angleDelta();
  m_wheelRest.start();
  if (turned.y() == 0) return setRange(m_axis.moved(range(), -kStep * turned.x() / kWheelNotch));
  const double at = m_axis.coordinate(static_cast<double>(positionAt(event->position().x())));
  setRange(m_axis.zoomed(range(), at, std::pow(zoomOfNotch(event->modifiers()), -turned.y() / kWheelNotch)));
}

void PositionPlot::stepPin(std::int64_t by, Qt::KeyboardModifiers modifiers) {
  const Cursor& pin = m_runs.selection().pin();
  const std::optional<std::int64_t> from = modifiers.testFlag(Qt::ShiftModifier) ? pin.key : pin.query;
  const std::int64_t last = m_runs.length() - 1;
  click(std::clamp<std::int64_t>(from ? *from + by : range().begin, 0, last), modifiers);
}

// The plot that has the keyboard zooms along its own axis; elsewhere these keys are commands of the window.
bool PositionPlot::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride && m_axis.length > 0) {
    const auto* key = static_cast<QKeyEvent*>(event);
    const bool zooms = key->key() == Qt::Key_Plus || key->key() == Qt::Key_Equal || key->key() == Qt::Key_Minus;
    if (zooms || (key->key() == Qt::Key_Escape && m_bandFrom)) {
      event->accept();
      return true;
    }
  }
  return QWidget::event(event);
}

void PositionPlot::keyPressEvent(QKeyEvent* event) {
  Selection& selection = m_runs.selection();
  if (m_axis.length == 0) return QWidget::keyPressEvent(event);
  const auto zoom = [&](double factor) {
    selection.endMovement();
    const std::int64_t centre = (range().begin + range().end) / 2;
    setRange(m_axis.zoomed(range(), m_axis.coordinate(static_cast<double>(centre)), factor));
  };
  const auto pan = [&](double share) {
    selection.endMovement();
    setRange(m_axis.moved(range(), share));
  };
  const std::int64_t rightwards = m_axis.ascends() ? 1 : -1;
  switch (event->key()) {
    case Qt::Key_0:
      if (!event->modifiers().testFlag(Qt::ControlModifier)) return QWidget::keyPressEvent(event);
      return fit();
    case Qt::Key_Escape:
      if (!m_bandFrom) return QWidget::keyPressEvent(event);
      m_bandFrom.reset();
      return m_band->hide();
    case Qt::Key_Backspace:
      return selection.goBack();
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      return zoom(1 / kZoom);
    case Qt::Key_Minus:
      return zoom(kZoom);
    case Qt::Key_PageUp:
      return pan(-1 + kStep);
    case Qt::Key_PageDown:
      return pan(1 - kStep);
    case Qt::Key_Left:
      return stepPin(-rightwards, event->modifiers());
    case Qt::Key_Right:
      return stepPin(rightwards, event->modifiers());
    default:
      return QWidget::keyPressEvent(event);
  }
}

}  // namespace foxscope::gui::curves
