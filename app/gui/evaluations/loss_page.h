#pragma once

#include <QLabel>
#include <QWidget>

#include "app/figure/curves/curve_plot.h"
#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/run_list.h"

class QCustomPlot;

namespace foxscope::gui::evaluations {

/// L(p) of every model of the loss evaluations that are open, smoothed and with bands of one standard error as
/// `foxscope figure loss` draws them. Where they are of different texts, a line above says so. The wheel zooms,
/// dragging moves, a double click shows all.
class LossPage : public QWidget {
  Q_OBJECT

 public:
  LossPage(EvaluationList& evaluations, RunList& runs, FileWriter& files, QWidget* parent = nullptr);
  /// Reads the evaluations that are open, on a job.
  void follow();
  /// Writes the figure of what is shown.
  void exportTo(const QString& path);
  [[nodiscard]] bool isEmpty() const { return m_plot.curves.empty(); }
  /// The plot, with its curves and its legend.
  [[nodiscard]] QCustomPlot& axes() const { return *m_axes; }
  [[nodiscard]] const figure::CurvePlot& plot() const { return m_plot; }
  /// Says that the curves are of different texts; empty where they are of one.
  [[nodiscard]] QString warning() const { return m_different->text(); }
  [[nodiscard]] bool isSettled() const { return !m_waiting; }

 signals:
  void told(const QString& reading);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void take(figure::CurvePlot plot);
  void restyle();
  void tell(double position);
  /// The meaning of lines and bands.
  [[nodiscard]] QString note() const;

  EvaluationList& m_evaluations;
  RunList& m_runs;
  FileWriter& m_files;
  QLabel* m_different;  ///< that the curves are of different texts; hidden where they are of one
  QCustomPlot* m_axes = nullptr;
  figure::CurvePlot m_plot;
  bool m_waiting = false;
};

}  // namespace foxscope::gui::evaluations
