#pragma once

#include <memory>
#include <string>
#include <vector>

#include <QWidget>

#include "app/figure/colour_scale.h"
#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui::evaluations {

class GridRow;

/// The needle tests that are open: length across, depth down, a grid for each model, on one scale.
class NeedlePage : public QWidget {
  Q_OBJECT

 public:
  NeedlePage(EvaluationList& evaluations, RunList& runs, ModelRuns& modelRuns, FileWriter& files,
             QWidget* parent = nullptr);
  void follow();
  /// Writes what is shown, all tests together: the figure, or its cells (.csv).
  void exportTo(const QString& path);
  [[nodiscard]] bool isEmpty() const;

 signals:
  void told(const QString& reading);

 private:
  void add(const std::shared_ptr<const NeedleEvaluation>& test, const NeedleModel& model, const QString& name,
           const figure::ScaledColours& colours);
  /// Makes the prompt of a cell from the haystack that is open and runs its model on it.
  void openCell(const std::shared_ptr<const NeedleEvaluation>& test, const NeedleModel& model, int length, int depth);

  EvaluationList& m_evaluations;
  RunList& m_runs;
  ModelRuns& m_modelRuns;
  FileWriter& m_files;
  GridRow* m_row = nullptr;
  std::string m_haystack;  ///< of the cell that was opened last; empty: none was
};

}  // namespace foxscope::gui::evaluations
