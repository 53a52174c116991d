#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QLabel>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/window/settings.h"

namespace foxscope::gui {

/// Theme, and how models are run.
class Preferences : public QDialog {
  Q_OBJECT

 public:
  Preferences(ModelRuns& modelRuns, Settings& settings, QWidget* parent);
  void accept() override;

 private:
  ModelRuns& m_modelRuns;
  Settings& m_settings;
  QComboBox* m_theme = nullptr;
  QComboBox* m_device = nullptr;
  QComboBox* m_dtype = nullptr;
  QCheckBox* m_queryKey = nullptr;
  QLabel* m_problem = nullptr;  ///< of a device that is none
};

}  // namespace foxscope::gui
