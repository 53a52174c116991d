#include "app/gui/curves/position_gestures.h"

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

constexpr int kWheelRest = 400;      // ms
constexpr double kZoom = 1.25;       // a key that zooms
constexpr double kStep = 0.1;        // of the range, a key that pans
constexpr double kSmallestBand = 4;  // pixels; smaller ones are slips of the hand

}  // namespace

PositionGestures::PositionGestures(PositionPlot& plot, RunList& runs) : QObject(&plot), m_plot(plot), m_runs(runs) {
  plot.installEventFilter(this);
  m_wheelRest.setSingleShot(true);
  m_wheelRest.setInterval(kWheelRest);
  connect(&m_wheelRest, &QTimer::timeout, &m_runs.selection(), &Selection::endMovement);
}

bool PositionGestures::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::MouseButtonPress:
      return press(*static_cast<QMouseEvent*>(event));
    case QEvent::MouseMove:
      return move(*static_cast<QMouseEvent*>(event));
    case QEvent::MouseButtonRelease:
      return release(*static_cast<QMouseEvent*>(event));
    case QEvent::MouseButtonDblClick:
      return doubleClick(*static_cast<QMouseEvent*>(event));
    case QEvent::Wheel:
      return turnWheel(*static_cast<QWheelEvent*>(event));
    case QEvent::ShortcutOverride:
      return overrideShortcut(*static_cast<QKeyEvent*>(event));
    case QEvent::KeyPress:
      return pressKey(*static_cast<QKeyEvent*>(event));
    case QEvent::ContextMenu: {
      // The right button zooms when it is drawn; a click is told apart when it is let go.
      const auto* menu = static_cast<QContextMenuEvent*>(event);
      if (menu->reason() != QContextMenuEvent::Mouse || !m_plot.hasDrawn()) emit menuAsked(menu->globalPos());
      return true;
    }
    case QEvent::Leave:
      m_runs.selection().setHover({});
      return false;
    default:
      return QObject::eventFilter(watched, event);
  }
}

void PositionGestures::setRange(const Range& range) {
  const PositionAxis& axis = m_plot.axis();
  if (axis.length == 0) return;
  View view = m_runs.selection().view();
  (axis.isOfKeys() ? view.columns : view.rows) = range;
  m_runs.selection().setView(view);
}

Cursor PositionGestures::cursorAt(std::int64_t position) const {
  const PositionAxis& axis = m_plot.axis();
  if (!axis.line) return {position, std::nullopt};
  const MapLine& line = *axis.line;
  const Range range = line.positions(axis.length);
  const std::int64_t place = std::clamp(position, range.begin, std::max(range.begin, range.end - 1));
  const Cursor& pin = m_runs.selection().pin();
  // The position that all pairs of the line have in common is pinned, or was hovered elsewhere.
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
void PositionGestures::click(std::int64_t position, Qt::KeyboardModifiers modifiers) {
  Selection& selection = m_runs.selection();
  if (modifiers.testFlag(Qt::ShiftModifier)) return selection.pinKey(position);
  const auto& line = m_plot.axis().line;
  if (!line || line->along == MapLine::Along::row) return selection.pinQuery(position);
  const Cursor at = cursorAt(position);
  if (at.key) return selection.setPin(at);
  selection.pinQuery(*at.query);
}

bool PositionGestures::press(const QMouseEvent& event) {
  if (event.button() == Qt::RightButton && m_plot.hasDrawn() && !m_press) {
    m_bandFrom = event.position().x();
    showBand(*m_bandFrom);
    return true;
  }
  if (event.button() != Qt::LeftButton || !m_plot.hasDrawn() || m_bandFrom) return false;
  m_press = event.position();
  m_pressRange = m_plot.range();
  m_panning = false;
  m_runs.selection().endMovement();
  return true;
}

bool PositionGestures::move(const QMouseEvent& event) {
  if (!m_plot.hasDrawn()) return true;
  const double x = event.position().x();
  if (m_bandFrom) {
    showBand(x);
  } else if (!m_press) {
    m_runs.selection().setHover(cursorAt(m_plot.positionAt(x)));
  } else {
    const double by = x - m_press->x();
    if (std::abs(by) >= QApplication::startDragDistance()) m_panning = true;
    if (!m_panning) return true;
    m_plot.setCursor(Qt::ClosedHandCursor);
    const double across = m_plot.stripsRect().width();
    if (across > 0) setRange(m_plot.axis().moved(m_pressRange, -by / across));
  }
  return true;
}

bool PositionGestures::release(const QMouseEvent& event) {
  if (event.button() == Qt::RightButton && m_bandFrom) {
    finishBand(event.position());
    return true;
  }
  if (event.button() != Qt::LeftButton || !m_press) return false;
  m_press.reset();
  m_plot.unsetCursor();
  if (m_panning) {
    m_panning = false;
    m_runs.selection().endMovement();
    return true;
  }
  m_pinBeforeClick = m_runs.selection().pin();
  click(m_plot.positionAt(event.position().x()), event.modifiers());
  return true;
}

// The first click of the two pinned something, which was not meant.
bool PositionGestures::doubleClick(const QMouseEvent& event) {
  if (event.button() != Qt::LeftButton) return false;
  m_press.reset();
  m_runs.selection().setPin(m_pinBeforeClick);
  m_plot.fit();
  return true;
}

void PositionGestures::showBand(double to) {
  if (m_band == nullptr) m_band = new QRubberBand(QRubberBand::Rectangle, &m_plot);
  const QRect room = m_plot.stripsRect();
  const auto inside = [&](double x) { return std::clamp(static_cast<int>(x), room.left(), room.right()); };
  m_band->setGeometry(QRect(QPoint(inside(*m_bandFrom), room.top()), QPoint(inside(to), room.bottom())).normalized());
  m_band->show();
}

// Every position that the band touches.
void PositionGestures::finishBand(const QPointF& place) {
  const double to = place.x();
  const double from = *std::exchange(m_bandFrom, std::nullopt);
  m_band->hide();
  if (std::abs(to - from) < kSmallestBand) {
    emit menuAsked(m_plot.mapToGlobal(place).toPoint());
    return;
  }
  const auto [first, last] = std::minmax({m_plot.positionAt(from), m_plot.positionAt(to)});
  Selection& selection = m_runs.selection();
  selection.endMovement();
  setRange({first, last + 1});
  selection.endMovement();
}

bool PositionGestures::turnWheel(QWheelEvent& event) {
  if (!m_plot.hasDrawn()) return false;
  event.accept();
  const PositionAxis& axis = m_plot.axis();
  const QPoint turned = event.angleDelta();
  m_wheelRest.start();
  if (turned.y() == 0) {
    setRange(axis.moved(m_plot.range(), -kStep * turned.x() / kWheelNotch));
    return true;
  }
  const double at = axis.coordinate(static_cast<double>(m_plot.positionAt(event.position().x())));
  setRange(axis.zoomed(m_plot.range(), at, std::pow(zoomOfNotch(event.modifiers()), -turned.y() / kWheelNotch)));
  return true;
}

void PositionGestures::stepPin(std::int64_t by, Qt::KeyboardModifiers modifiers) {
  const Cursor& pin = m_runs.selection().pin();
  const std::optional<std::int64_t> from = modifiers.testFlag(Qt::ShiftModifier) ? pin.key : pin.query;
  const std::int64_t last = m_runs.length() - 1;
  click(std::clamp<std::int64_t>(from ? *from + by : m_plot.range().begin, 0, last), modifiers);
}

// The plot that has the keyboard zooms along its own axis; elsewhere these keys are commands of the window.
bool PositionGestures::overrideShortcut(QKeyEvent& event) {
  if (m_plot.axis().length == 0) return false;
  const bool zooms = event.key() == Qt::Key_Plus || event.key() == Qt::Key_Equal || event.key() == Qt::Key_Minus;
  // On an axis that falls, the key moves as the mouse would.
  const bool moves =
      event.modifiers().testFlag(Qt::ShiftModifier) && (event.key() == Qt::Key_Left || event.key() == Qt::Key_Right);
  if (!zooms && !moves && !(event.key() == Qt::Key_Escape && m_bandFrom)) return false;
  event.accept();
  return true;
}

void PositionGestures::zoom(double factor) {
  m_runs.selection().endMovement();
  const Range range = m_plot.range();
  const std::int64_t centre = (range.begin + range.end) / 2;
  setRange(m_plot.axis().zoomed(range, m_plot.axis().coordinate(static_cast<double>(centre)), factor));
}

void PositionGestures::pan(double share) {
  m_runs.selection().endMovement();
  setRange(m_plot.axis().moved(m_plot.range(), share));
}

bool PositionGestures::pressKey(const QKeyEvent& event) {
  const PositionAxis& axis = m_plot.axis();
  if (axis.length == 0) return false;
  const std::int64_t rightwards = axis.ascends() ? 1 : -1;
  switch (event.key()) {
    case Qt::Key_0:
      if (!event.modifiers().testFlag(Qt::ControlModifier)) return false;
      m_plot.fit();
      return true;
    case Qt::Key_Escape:
      if (!m_bandFrom) return false;
      m_bandFrom.reset();
      m_band->hide();
      return true;
    case Qt::Key_Backspace:
      m_runs.selection().goBack();
      return true;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      zoom(1 / kZoom);
      return true;
    case Qt::Key_Minus:
      zoom(kZoom);
      return true;
    case Qt::Key_PageUp:
      pan(-1 + kStep);
      return true;
    case Qt::Key_PageDown:
      pan(1 - kStep);
      return true;
    case Qt::Key_Left:
      stepPin(-rightwards, event.modifiers());
      return true;
    case Qt::Key_Right:
      stepPin(rightwards, event.modifiers());
      return true;
    default:
      return false;
  }
}

}  // namespace foxscope::gui::curves
