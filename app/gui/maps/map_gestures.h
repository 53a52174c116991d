#pragma once

#include <optional>

#include <QObject>
#include <QPointF>
#include <QTimer>

#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/view_motion.h"

namespace foxscope::gui {

/// The effect of dragging with the left button.
enum class MapTool { pan, zoomBand };

/// Turns mouse and wheel events of a plot into what they mean: other views, hovered and pinned entries.
class MapGestures : public QObject {
  Q_OBJECT

 public:
  explicit MapGestures(MapPlot& plot);

  void setLength(std::int64_t length) { m_length = length; }
  void setTool(MapTool tool);
  /// Lets go of a drag that is under way.
  void cancel();
  /// The plot shows another view: another entry lies under a pointer that has not moved.
  void hoverAgain();

 signals:
  void viewWanted(const foxscope::gui::View& view);
  void movementEnded();
  void hovered(const foxscope::gui::Cursor& entry);
  void clicked(const foxscope::gui::Cursor& entry, Qt::KeyboardModifiers modifiers);
  void fitWanted();
  void splitWanted(double place);
  void touched();  ///< a button was pressed
  /// The right button was pressed and released without a drag.
  void menuWanted(const foxscope::gui::Cursor& entry, const QPoint& where);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  enum class Drag { none, undecided, pan, band, split };
  void press(const QMouseEvent& event);
  void move(const QMouseEvent& event);
  void release(const QMouseEvent& event);
  void turnWheel(const QWheelEvent& event);
  void hover(const QPointF& point);
  void pan(const QPointF& point);
  void finishBand();
  [[nodiscard]] bool onDivider(const QPointF& point) const;
  [[nodiscard]] QRectF bandTo(const QPointF& point) const;
  [[nodiscard]] Cursor entryAt(const QPointF& point) const;
  void showCursorShape(const QPointF& point);

  MapPlot& m_plot;
  std::int64_t m_length = 0;
  MapTool m_tool = MapTool::pan;
  Drag m_drag = Drag::none;
  std::optional<QPointF> m_pointer;  ///< where it was last; none: it left the plot
  QPointF m_from;
  QPointF m_to;
  View m_viewBefore;
  int m_wheelRest = 0;  ///< eighths of a degree that are not yet a step
  QTimer m_wheelEnd;    ///< one turn of the wheel is one movement
};

}  // namespace foxscope::gui
