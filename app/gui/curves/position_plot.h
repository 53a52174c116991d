#pragma once

#include <optional>
#include <set>
#include <vector>

#include <QString>
#include <QWidget>

#include "app/gui/curves/plot_content.h"
#include "app/gui/curves/position_axis.h"
#include "app/gui/document/runs/run_list.h"

class QCPGraph;
class QCPItemText;
class QCPMarginGroup;
class QCustomPlot;

namespace foxscope::gui::curves {

struct Stripe;

/// Curves along the text that share one horizontal axis with the other views: the selection's range, its hovered and
/// its pinned positions; of queries, or of the keys of a row (PositionAxis). Jobs decimate the lines.
class PositionPlot : public QWidget {
  Q_OBJECT

 public:
  PositionPlot(RunList& runs, QWidget* parent);
  ~PositionPlot() override;

  /// Shows this instead, once a job has made ready what is drawn; until then what is shown stays.
  void setContent(const PlotContent& content, const PositionAxis& axis);
  /// The content that is shown, or asked for.
  [[nodiscard]] const PlotContent& content() const { return m_wanted; }
  [[nodiscard]] const PositionAxis& axis() const { return m_axis; }
  /// Whether the plot shows the last request.
  [[nodiscard]] bool isSettled() const { return m_drawn == m_asked && !m_stale; }

  /// Ends of the axes as they are shown.
  [[nodiscard]] figure::AxisLimits horizontalLimits() const;
  [[nodiscard]] figure::AxisLimits verticalLimits(int strip, Side side) const;
  /// Strips that have room, and whether a line is drawn in them.
  [[nodiscard]] int strips() const;
  [[nodiscard]] bool isDrawn(std::size_t line) const;
  /// Entries of the legend all of whose lines belong to strips that have no room.
  [[nodiscard]] std::set<QString> entriesWithoutRoom() const;
  /// Points that are drawn of a line.
  [[nodiscard]] const std::vector<Point>& points(std::size_t line) const { return m_points.at(line); }
  /// Where a position is in this widget, horizontally.
  [[nodiscard]] double pixelOf(double position) const;
  [[nodiscard]] std::int64_t positionAt(double pixel) const;

  /// Positions that are shown.
  [[nodiscard]] Range range() const;
  /// Whether something is drawn, or was.
  [[nodiscard]] bool hasDrawn() const { return m_drawn > 0; }
  [[nodiscard]] QRect stripsRect() const;  ///< where curves are, in this widget

  /// Shows all of the text.
  void fit();

 signals:
  /// The plot was drawn with another content, or size.
  void drawnAnew();
  /// The right button was clicked, or the key for menus pressed.
  void menuAsked(const QPoint& globalPosition);

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  struct Prepared;
  void ask();
  void take(Prepared prepared);
  /// Whether there are others than before.
  bool rebuildStripes();
  void rebuildGraphs();
  void followView();
  void followCursor();
  void redraw();
  void fitVertically();
  void placeLabels();
  [[nodiscard]] int stripsWithRoom(const PlotContent& content) const;
  [[nodiscard]] QString xTitle() const;
  [[nodiscard]] std::optional<double> visibleCoordinate(const std::optional<std::int64_t>& position) const;

  RunList& m_runs;
  QCustomPlot* m_plot;
  QCPMarginGroup* m_margins;
  PlotContent m_wanted;
  PlotContent m_content;  ///< what is drawn
  PositionAxis m_axis;
  std::vector<std::vector<Point>> m_points;  ///< by line
  std::vector<Stripe> m_stripes;
  std::vector<QCPGraph*> m_graphs;  ///< by line
  std::vector<QCPItemText*> m_labels;
  int m_asked = 0;
  int m_drawn = 0;
  bool m_stale = false;  ///< about to be painted anew
};

}  // namespace foxscope::gui::curves
