#pragma once

#include <memory>
#include <vector>

#include <QSharedPointer>
#include <qcustomplot.h>

#include "app/gui/maps/plot_items.h"
#include "app/gui/maps/position_ticker.h"

namespace foxscope::gui {

/// Whether a token is as wide as it is high, or the view fills the pane.
enum class Proportions { square, free };

/// A map inside axes: pictures, token labels, and the marks of the cursor. It shows what it is told; MapGestures turns
/// mouse events into wishes.
class MapPlot : public QCustomPlot {
  Q_OBJECT

 public:
  explicit MapPlot(QWidget* parent = nullptr);

  void setPictures(std::vector<PicturePointer> pictures);
  void setView(const View& view);
  /// Whose positions the axes show.
  void setRun(const AxisRun& run);
  void setMarks(const Cursor& pin, const Cursor& hover);
  void setDivider(const Divider& divider);
  void setBand(const std::optional<QRectF>& band);
  void setProportions(Proportions proportions);
  /// Says in the middle of the plot why there is no picture; empty: nothing.
  void setNotice(const QString& notice);
  [[nodiscard]] const QString& notice() const { return m_notice; }

  [[nodiscard]] const PlotGeometry& geometryOfView() const { return m_geometry; }
  [[nodiscard]] const Divider& divider() const { return m_raster->divider; }
  [[nodiscard]] Proportions proportions() const { return m_proportions; }
  /// Device pixels of the map itself.
  [[nodiscard]] PixelSize devicePixels() const;
  /// The width that this height makes use of.
  [[nodiscard]] int usefulWidth(int height) const;
  /// What was set last is drawn.
  [[nodiscard]] bool isDrawn() const { return !m_replotDue; }
  /// Text beside the ticks, as it is drawn.
  [[nodiscard]] QVector<QString> tickLabels(Qt::Orientation orientation) const;
  /// Entries that do not exist, and those below the threshold.
  [[nodiscard]] QColor groundColour() const;
  [[nodiscard]] QColor blankColour() const { return palette().color(QPalette::Base); }

 signals:
  void shapeChanged();  ///< the map became another rectangle, or wants to
  void painted();       ///< what was set last is on the screen

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  // The gestures are MapGestures'.
  void mousePressEvent(QMouseEvent* event) override { event->accept(); }
  void mouseMoveEvent(QMouseEvent* event) override { event->accept(); }
  void mouseReleaseEvent(QMouseEvent* event) override { event->accept(); }
  void mouseDoubleClickEvent(QMouseEvent* event) override { event->accept(); }
  void wheelEvent(QWheelEvent* event) override { event->accept(); }

 private:
  void place();
  void replotSoon();
  void labelAxes();
  void applyColours();
  [[nodiscard]] QMargins margins() const;
  [[nodiscard]] double lineHeight() const;

  PlotGeometry m_geometry;
  RasterItem* m_raster;
  MarksItem* m_marks;
  QSharedPointer<PositionTicker> m_rowTicker;
  QSharedPointer<PositionTicker> m_columnTicker;
  AxisRun m_run;
  Proportions m_proportions = Proportions::square;
  QString m_notice;
  int m_usefulWidth = 0;     ///< when the plot's owner heard of it last
  bool m_replotDue = false;  ///< what was set last is not drawn yet
  bool m_replotted = false;  ///< it is drawn, but not on the screen yet
};

}  // namespace foxscope::gui
