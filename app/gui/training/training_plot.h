#pragma once

#include <optional>

#include <QPoint>
#include <QWidget>

#include "app/figure/curves/curve_plot.h"

class QCPItemStraightLine;
class QCustomPlot;

namespace foxscope::gui {

/// Curves over the tokens that a training has seen, with a line at the chosen checkpoint. A click chooses a place, the
/// wheel zooms, dragging moves, a double click shows all.
class TrainingPlot : public QWidget {
  Q_OBJECT

 public:
  /// @param name  for those who cannot see it
  explicit TrainingPlot(const QString& name, QWidget* parent = nullptr);

  /// @param strong  curve that stands out; nothing: none does
  void setPlot(figure::CurvePlot plot, std::optional<std::size_t> strong);
  void setStrong(std::optional<std::size_t> strong);
  /// Where the line is, on the axis of the curves.
  void setMark(std::optional<double> x);
  [[nodiscard]] const figure::CurvePlot& plot() const { return m_plot; }
  [[nodiscard]] std::optional<double> mark() const { return m_mark; }
  [[nodiscard]] QCustomPlot& axes() const { return *m_axes; }

 signals:
  void chosen(double x);
  void pointed(double x);  ///< the mouse is there

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void draw();
  void addCurve(const figure::Curve& curve, bool strong);
  void showAll();

  QCustomPlot* m_axes;
  QCPItemStraightLine* m_line;
  figure::CurvePlot m_plot;
  std::optional<std::size_t> m_strong;
  std::optional<double> m_mark;
  QPoint m_pressed;
};

}  // namespace foxscope::gui
