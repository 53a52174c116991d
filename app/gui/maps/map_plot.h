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

/// Which axes of a plot have numbers and titles; beside or above a plot of the same positions they need none.
struct LabelledAxes {
  bool queries = true;
  bool keys = true;
  bool operator==(const LabelledAxes&) const = default;
};

/// A map inside axes: pictures, token labels, and the marks of the cursor. It shows what it is given; MapGestures turns
/// mouse events into requests.
class MapPlot : public QCustomPlot {
  Q_OBJECT

 public:
  explicit MapPlot(QWidget* parent = nullptr);

  void setPictures(std::vector<PicturePointer> pictures);
  /// @param axes  by distance the view has the distances that are to be shown
  void setView(const View& view, MapAxes axes = MapAxes::key);
  /// A line of text over the map, after the names of its axes.
  void setCaption(const QString& caption);
  [[nodiscard]] const QString& caption() const { return m_caption; }
  /// Sets the run whose positions the axes show.
  void setRun(const AxisRun& run);
  void setMarks(const Cursor& pin, const Cursor& hover, const std::vector<Cursor>& locks);
  void setDivider(const Divider& divider);
  void setBand(const std::optional<QRectF>& band);
  void setProportions(Proportions proportions);
  void setLabelledAxes(const LabelledAxes& labelled);
  /// Room that is kept free at the map's right, logical pixels.
  void setRightRoom(int room);
  /// Says in the middle of the plot why there is no picture; empty: nothing.
  void setNotice(const QString& notice);
  [[nodiscard]] const QString& notice() const { return m_notice; }

  [[nodiscard]] const PlotGeometry& geometryOfView() const { return m_geometry; }
  [[nodiscard]] const Divider& divider() const { return m_raster->divider; }
  [[nodiscard]] Proportions proportions() const { return m_proportions; }
  /// Device pixels of the map itself.
  [[nodiscard]] PixelSize devicePixels() const;
  /// Room around the map if these axes were labelled, for labels as they are now: numbers or tokens.
  [[nodiscard]] QMargins roomAround(const LabelledAxes& labelled) const;
  /// Every position of the two plots is the same token of one text.
  [[nodiscard]] bool sharesPositionsWith(const MapPlot& other) const;
  /// The width that this height makes use of.
  [[nodiscard]] int usefulWidth(int height) const;
  /// Whether the last state that was set is drawn.
  [[nodiscard]] bool isDrawn() const { return !m_replotDue; }
  /// Paints what was set last without waiting for the event loop.
  void drawNow();
  [[nodiscard]] const LabelledAxes& labelledAxes() const { return m_labelled; }
  /// Text beside the ticks, as it is drawn; none where the axis is not labelled.
  [[nodiscard]] QVector<QString> tickLabels(Qt::Orientation orientation) const;
  /// Entries that do not exist, and those below the threshold.
  [[nodiscard]] QColor groundColour() const;
  [[nodiscard]] QColor blankColour() const { return palette().color(QPalette::Base); }

 signals:
  void shapeChanged();  ///< the map became another rectangle, or wants to
  void axesChanged();   ///< roomAround or sharesPositionsWith may answer otherwise
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
  /// Whether ticks are named by tokens or by numbers.
  struct TickNames {
    PositionTicker::Labels rows = PositionTicker::Labels::numbers;
    PositionTicker::Labels columns = PositionTicker::Labels::numbers;
    bool operator==(const TickNames&) const = default;
  };
  void place();
  void replotSoon();
  void labelAxes();
  void drawTitles();
  void applyColours();
  [[nodiscard]] QMargins roomAround(const LabelledAxes& labelled, const TickNames& names) const;
  /// The size of a map with this room around it.
  [[nodiscard]] QSize mapSize(const QMargins& room) const;
  [[nodiscard]] TickNames fittingNames() const;
  [[nodiscard]] double viewShape() const;
  [[nodiscard]] bool isSquare() const { return m_proportions == Proportions::square && !m_geometry.byDistance(); }
  /// The positions below the map, and how many there are.
  [[nodiscard]] const Range& across() const;
  [[nodiscard]] double lineHeight() const;
  /// @param cell  what an entry has along the axis, logical pixels
  [[nodiscard]] QFont nameFont(PositionTicker::Labels labels, double cell) const;

  PlotGeometry m_geometry;
  RasterItem* m_raster;
  MarksItem* m_marks;
  QSharedPointer<PositionTicker> m_rowTicker;
  QSharedPointer<PositionTicker> m_columnTicker;
  QSharedPointer<DistanceTicker> m_distanceTicker;
  AxisRun m_run;
  Proportions m_proportions = Proportions::square;
  LabelledAxes m_labelled;
  TickNames m_names;
  QFont m_tickFont;  ///< of numbers, and of tokens that have room for it
  int m_rightRoom = 0;
  QString m_notice;
  QString m_caption;
  int m_usefulWidth = 0;     ///< when the plot's owner heard of it last
  bool m_replotDue = false;  ///< what was set last is not drawn yet
  bool m_replotted = false;  ///< it is drawn, but not on the screen yet
};

}  // namespace foxscope::gui
