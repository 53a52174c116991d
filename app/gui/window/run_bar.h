#pragma once

#include <QWidget>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/window/run_numbers.h"

class QAction;
class QHBoxLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QSpinBox;

namespace foxscope::gui {

/// The bar of the run: a chip for each row of the list of runs that shows the run, the text, how many tokens of it; the
/// button that runs, progress with an estimate, Cancel.
class RunBar : public QWidget {
  Q_OBJECT

 public:
  /// @param list  shows and hides the list of runs, whose short form the chips are
  RunBar(RunList& runs, ModelRuns& modelRuns, const RunNumbers& numbers, QAction* list, QWidget* parent = nullptr);
  [[nodiscard]] QPushButton& runButton() { return *m_run; }

 private:
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void followInputs();
  void followHead();
  void fillChips();
  void tellNumbers();
  void colourChips();
  void fitNames();
  void addChip(const ListRow& row);
  void followStatus();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  const RunNumbers& m_numbers;
  QHBoxLayout* m_chips = nullptr;
  QLabel* m_text = nullptr;
  QSpinBox* m_limit = nullptr;
  QPushButton* m_run = nullptr;
  class Chip;
  class Progress;
  Progress* m_progress = nullptr;
};

}  // namespace foxscope::gui
