#pragma once

#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QLabel>

#include "app/gui/document/runs/sweeps.h"

namespace foxscope::gui {

/// Asks what is to be done to each head of a run in turn, and has the sweep begin.
class SweepDialog : public QDialog {
  Q_OBJECT

 public:
  SweepDialog(RunList& runs, Sweeps& sweeps, QWidget* parent);

  void accept() override;
  [[nodiscard]] Intervention change() const;
  /// The chosen fields, for whoever drives the dialog.
  QComboBox& run() { return *m_run; }
  QComboBox& kind() { return *m_kind; }

 private:
  void follow();

  RunList& m_runs;
  Sweeps& m_sweeps;
  QComboBox* m_run;
  QComboBox* m_kind;
  QDoubleSpinBox* m_value;
  QLabel* m_meaning;
  QLabel* m_command;
};

}  // namespace foxscope::gui
