#pragma once

#include <vector>

#include <QWidget>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/run_list.h"

class QComboBox;

namespace foxscope::gui::evaluations {

class GridRow;

/// Statistics of heads of the evaluations that are open: layers down, heads across, a grid for each model, all of one
/// statistic on one scale.
class HeadsPage : public QWidget {
  Q_OBJECT

 public:
  HeadsPage(EvaluationList& evaluations, RunList& runs, FileWriter& files, QWidget* parent = nullptr);
  void follow();
  /// Writes the figure of what is shown.
  void exportTo(const QString& path);
  [[nodiscard]] bool isEmpty() const;
  [[nodiscard]] QComboBox& statistic() { return *m_statistic; }

 signals:
  void told(const QString& reading);

 private:
  void fill();
  void add(const EvaluatedHeads& model, const HeadArray& numbers, const std::vector<float>& all);

  EvaluationList& m_evaluations;
  RunList& m_runs;
  FileWriter& m_files;
  QComboBox* m_statistic = nullptr;
  GridRow* m_row = nullptr;
};

}  // namespace foxscope::gui::evaluations
