#include "app/gui/maps/map_gestures.h"

#include <algorithm>
#include <cmath>

#include <QApplication>
#include <QMouseEvent>
#include <QWheelEvent>

#include "app/gui/views/wheel_zoom.h"

namespace foxscope::gui {
namespace {

constexpr int kLeastTurn = 15;       ///< an eighth of a notch; touch pads send less at a time
constexpr int kWheelPause = 400;     ///< ms after which another turn begins
constexpr double kGrip = 5;          ///< logical pixels beside the dividing line
constexpr double kSmallestBand = 4;  ///< smaller ones are slips of the hand

}  // namespace

MapGestures::MapGestures(MapPlot& plot) : QObject(&plot), m_plot(plot) {
  plot.installEventFilter(this);
  m_wheelEnd.setSingleShot(true);
  m_wheelEnd.setInterval(kWheelPause);
  connect(&m_wheelEnd, &QTimer::timeout, this, &MapGestures::movementEnded);
  plot.setCursor(Qt::CrossCursor);
}

void MapGestures::setTool(MapTool tool) { m_tool = tool; }

void MapGestures::cancel() {
  if (m_drag == Drag::none) return;
  if (m_drag == Drag::pan) emit movementEnded();
  m_drag = Drag::none;
  m_plot.setBand(std::nullopt);
  m_plot.setCursor(Qt::CrossCursor);
}

bool MapGestures::eventFilter(QObject* watched, QEvent* event) {
  if (m_length < 1) return QObject::eventFilter(watched, event);
  switch (event->type()) {
    case QEvent::MouseButtonPress:
      press(*static_cast<QMouseEvent*>(event));
      return false;
    case QEvent::MouseMove:
      move(*static_cast<QMouseEvent*>(event));
      return true;
    case QEvent::MouseButtonRelease:
      release(*static_cast<QMouseEvent*>(event));
      return true;
    case QEvent::MouseButtonDblClick:
      if (static_cast<QMouseEvent*>(event)->button() == Qt::LeftButton) {
        m_drag = Drag::none;
        emit fitWanted();
      }
      return true;
    case QEvent::Wheel:
      turnWheel(*static_cast<QWheelEvent*>(event));
      event->accept();
      return true;
    case QEvent::Leave:
      m_pointer.reset();
      if (m_drag == Drag::none) emit hovered({});
      return false;
    default:
      return QObject::eventFilter(watched, event);
  }
}

void MapGestures::press(const QMouseEvent& event) {
  emit touched();
  if (m_drag != Drag::none) return cancel();
  const QPointF point = event.position();
  if (!m_plot.geometryOfView().rect.contains(point.toPoint())) return;
  m_from = m_to = point;
  m_viewBefore = m_plot.geometryOfView().view;
  if (event.button() == Qt::RightButton || (event.button() == Qt::LeftButton && m_tool == MapTool::zoomBand)) {
    m_drag = Drag::band;
  } else if (event.button() == Qt::LeftButton && onDivider(point)) {
    m_drag = Drag::split;
  } else if (event.button() == Qt::LeftButton || event.button() == Qt::MiddleButton) {
    m_drag = Drag::undecided;
  }
}

void MapGestures::move(const QMouseEvent& event) {
  const QPointF point = event.position();
  m_pointer = point;
  m_to = point;
  const bool far = (point - m_from).manhattanLength() >= QApplication::startDragDistance();
  if (m_drag == Drag::undecided && far) {
    m_drag = Drag::pan;
    m_plot.setCursor(Qt::ClosedHandCursor);
    emit hovered({});
    emit movementEnded();
  }
  switch (m_drag) {
    case Drag::pan:
      return pan(point);
    case Drag::band:
      return m_plot.setBand(bandTo(point));
    case Drag::split: {
      const QRectF rect = m_plot.geometryOfView().rect;
      const bool vertical = m_plot.divider().sides == Sides::splitVertically;
      const double place =
          vertical ? (point.x() - rect.left()) / rect.width() : (point.y() - rect.top()) / rect.height();
      emit splitWanted(std::clamp(place, 0.0, 1.0));
      return;
    }
    default:
      showCursorShape(point);
      return hover(point);
  }
}

void MapGestures::release(const QMouseEvent& event) {
  const Drag drag = m_drag;
  m_drag = Drag::none;
  m_to = event.position();
  if (drag == Drag::band) {
    const bool moved = (m_to - m_from).manhattanLength() >= QApplication::startDragDistance();
    if (moved || event.button() != Qt::RightButton) return finishBand();
    m_plot.setBand(std::nullopt);
    emit menuWanted(entryAt(m_from), event.globalPosition().toPoint());
    return;
  }
  if (drag == Drag::pan) emit movementEnded();
  if (drag == Drag::undecided && event.button() == Qt::LeftButton) {
    emit clicked(entryAt(event.position()), event.modifiers());
  }
  showCursorShape(event.position());
}

void MapGestures::pan(const QPointF& point) {
  const PlotGeometry& geometry = m_plot.geometryOfView();
  const double across = (m_from.x() - point.x()) / geometry.rect.width();
  const double down = (m_from.y() - point.y()) / geometry.rect.height();
  if (geometry.byDistance()) {
    const std::int64_t queries = std::llround(across * static_cast<double>(m_viewBefore.rows.size()));
    emit viewWanted(pannedByDistance(m_viewBefore, queries, -down, m_length));
    return;
  }
  emit viewWanted(panned(m_viewBefore, std::llround(down * static_cast<double>(m_viewBefore.rows.size())),
                         std::llround(across * static_cast<double>(m_viewBefore.columns.size())), m_length));
}

QRectF MapGestures::bandTo(const QPointF& point) const {
  return QRectF(m_from, point).normalized() & QRectF(m_plot.geometryOfView().rect);
}

void MapGestures::finishBand() {
  m_plot.setBand(std::nullopt);
  const QRectF band = bandTo(m_to);
  if (band.width() < kSmallestBand || band.height() < kSmallestBand) return;
  const PlotGeometry& geometry = m_plot.geometryOfView();
  // Every entry that the band touches.
  View view;
  if (geometry.byDistance()) {
    view = viewByDistance({geometry.rowAt(band.topLeft()), geometry.rowAt(band.bottomRight()) + 1},
                          {geometry.distanceAt(band.bottom()), geometry.distanceAt(band.top()) + 1}, m_length);
  } else {
    view.rows = {geometry.rowAt(band.topLeft()), geometry.rowAt(band.bottomRight()) + 1};
    view.columns = {geometry.columnAt(band.topLeft()), geometry.columnAt(band.bottomRight()) + 1};
    view = clamped(view, m_length);
    if (m_plot.proportions() == Proportions::square) view = squared(view, m_length);
  }
  emit movementEnded();
  emit viewWanted(view);
  emit movementEnded();
}

void MapGestures::turnWheel(const QWheelEvent& event) {
  m_pointer = event.position();
  // Some systems turn the wheel sideways while a modifier is held.
  const QPoint angle = event.angleDelta();
  m_wheelRest += angle.y() != 0 ? angle.y() : angle.x();
  if (std::abs(m_wheelRest) < kLeastTurn) return;
  const double factor = std::pow(zoomOfNotch(event.modifiers()), -m_wheelRest / kWheelNotch);
  m_wheelRest = 0;
  const PlotGeometry& geometry = m_plot.geometryOfView();
  const QRectF rect = geometry.rect;
  const QPointF point = event.position();
  const Anchor anchor{(point.y() - rect.top()) / rect.height(), (point.x() - rect.left()) / rect.width()};
  ZoomAxes axes = ZoomAxes::both;
  if (geometry.byDistance()) {
    // Distances are few on their axis, and all of them are wanted beside fewer queries.
    axes = point.x() < rect.left() ? ZoomAxes::rows : ZoomAxes::columns;
    emit viewWanted(zoomedByDistance(geometry.view, factor, anchor, axes, m_length));
    m_wheelEnd.start();
    return;
  }
  if (m_plot.proportions() == Proportions::free) {
    if (point.x() < rect.left()) axes = ZoomAxes::rows;
    if (point.y() > rect.bottom()) axes = ZoomAxes::columns;
  }
  emit viewWanted(zoomed(geometry.view, factor, anchor, axes, m_length));
  m_wheelEnd.start();
}

Cursor MapGestures::entryAt(const QPointF& point) const {
  const PlotGeometry& geometry = m_plot.geometryOfView();
  const QPointF inside(std::clamp<double>(point.x(), geometry.rect.left(), geometry.rect.right()),
                       std::clamp<double>(point.y(), geometry.rect.top(), geometry.rect.bottom()));
  const std::int64_t row = std::clamp<std::int64_t>(geometry.rowAt(inside), 0, m_length - 1);
  const std::int64_t column = geometry.columnAt(inside);
  // Before the text there is no key.
  if (geometry.byDistance()) return {row, column < 0 ? std::nullopt : std::optional(std::min(column, row))};
  return {row, std::clamp<std::int64_t>(column, 0, m_length - 1)};
}

void MapGestures::hover(const QPointF& point) {
  emit hovered(m_plot.geometryOfView().rect.contains(point.toPoint()) ? entryAt(point) : Cursor{});
}

void MapGestures::hoverAgain() {
  if (m_pointer && m_drag == Drag::none && m_length > 0) hover(*m_pointer);
}

bool MapGestures::onDivider(const QPointF& point) const {
  const Divider& divider = m_plot.divider();
  if (!divider.divides()) return false;
  const QRectF first = divider.part(m_plot.geometryOfView().rect, 0);
  const bool vertical = divider.sides == Sides::splitVertically;
  return std::abs(vertical ? point.x() - first.right() : point.y() - first.bottom()) <= kGrip;
}

void MapGestures::showCursorShape(const QPointF& point) {
  Qt::CursorShape shape = Qt::CrossCursor;
  if (onDivider(point)) {
    shape = m_plot.divider().sides == Sides::splitVertically ? Qt::SplitHCursor : Qt::SplitVCursor;
  } else if (!m_plot.geometryOfView().rect.contains(point.toPoint())) {
    shape = Qt::ArrowCursor;
  }
  if (m_plot.cursor().shape() != shape) m_plot.setCursor(shape);
}

}  // namespace foxscope::gui
