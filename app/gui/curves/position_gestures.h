#pragma once

#include <optional>

#include <QObject>
#include <QPointF>
#include <QTimer>

#include "app/gui/document/runs/run_list.h"

class QContextMenuEvent;
class QKeyEvent;
class QMouseEvent;
class QRubberBand;
class QWheelEvent;

namespace foxscope::gui::curves {

class PositionPlot;

/// Turns mouse and keys over a PositionPlot into movements of the selection's range, hover and pin.
class PositionGestures : public QObject {
  Q_OBJECT

 public:
  PositionGestures(PositionPlot& plot, RunList& runs);

 signals:
  /// The right button was clicked, or the key for menus pressed.
  void menuAsked(const QPoint& globalPosition);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  // Each says whether the event has had its effect; the plot does with any other what widgets do.
  bool press(const QMouseEvent& event);
  bool move(const QMouseEvent& event);
  bool release(const QMouseEvent& event);
  bool doubleClick(const QMouseEvent& event);
  bool turnWheel(QWheelEvent& event);
  bool overrideShortcut(QKeyEvent& event);
  bool pressKey(const QKeyEvent& event);
  void setRange(const Range& range);
  /// The cursor at a position of the axis.
  [[nodiscard]] Cursor cursorAt(std::int64_t position) const;
  void click(std::int64_t position, Qt::KeyboardModifiers modifiers);
  void stepPin(std::int64_t by, Qt::KeyboardModifiers modifiers);
  void zoom(double factor);
  void pan(double share);
  void showBand(double to);
  void finishBand(const QPointF& to);

  PositionPlot& m_plot;
  RunList& m_runs;
  std::optional<QPointF> m_press;
  Range m_pressRange;
  bool m_panning = false;
  Cursor m_pinBeforeClick;
  std::optional<double> m_bandFrom;  ///< pixel at which the right button went down
  QRubberBand* m_band = nullptr;
  QTimer m_wheelRest;  ///< a wheel that rests this long has ended its turn
};

}  // namespace foxscope::gui::curves
