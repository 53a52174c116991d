#pragma once

#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QSpinBox>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// Asks what is to be changed in a head, its layer or all heads of a run, and has the changed model run on the same
/// text.
class InterventionDialog : public QDialog {
  Q_OBJECT

 public:
  /// @param head  the one that is offered first; its run is what the new run derives from
  InterventionDialog(RunList& runs, ModelRuns& modelRuns, const HeadChoice& head, QWidget* parent);

  void accept() override;
  /// The change as on the command line: LAYER:HEAD:KIND.
  [[nodiscard]] QString intervention() const;

 private:
  void follow();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  HeadChoice m_head;
  QComboBox* m_place;
  QComboBox* m_kind;
  QDoubleSpinBox* m_value;
  QSpinBox* m_position;
  QLabel* m_meaning;
  QLabel* m_command;
};

}  // namespace foxscope::gui
