#pragma once

#include <optional>
#include <vector>

#include <QColor>
#include <QString>
#include <QWidget>

#include "backend/map/statistics/distance_bins.h"

class QCPGraph;
class QCPItemLine;
class QCustomPlot;

namespace foxscope::gui::curves {

/// One curve against distance.
struct DistanceLine {
  QString name;
  QColor colour;
  Qt::PenStyle style = Qt::SolidLine;
  std::vector<DistanceBin> bins;
  std::vector<double> value;  ///< [bins]; NaN: none
};

/// Where a bin stands on a logarithmic axis of 1 + distance: in its geometric middle.
double middleOf(const DistanceBin& bin);

/// Curves against 1 + distance on a logarithmic axis. Hovering, or the left and right keys, choose a bin.
class DistancePlot : public QWidget {
  Q_OBJECT

 public:
  explicit DistancePlot(QWidget* parent);

  void setLines(std::vector<DistanceLine> lines, const QString& label);
  [[nodiscard]] const std::vector<DistanceLine>& lines() const { return m_lines; }
  /// The bin under the mouse, of the longest line.
  [[nodiscard]] std::optional<std::size_t> hovered() const { return m_hovered; }
  /// Where a bin is in this widget, horizontally.
  [[nodiscard]] double pixelOf(std::size_t bin) const;

 signals:
  void hoveredChanged();

 protected:
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  void restyle();
  void setHovered(std::optional<std::size_t> bin);
  [[nodiscard]] const std::vector<DistanceBin>& bins() const;

  QCustomPlot* m_plot;
  QCPItemLine* m_cursor;
  std::vector<QCPGraph*> m_graphs;  ///< by line
  std::vector<DistanceLine> m_lines;
  QString m_label;
  std::optional<std::size_t> m_hovered;
};

}  // namespace foxscope::gui::curves
