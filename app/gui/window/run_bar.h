#pragma once

#include <QWidget>

#include "app/gui/document/document.h"

class QHBoxLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QSpinBox;

namespace foxscope::gui {

/// What is run: the models, the text, how many tokens of it; the button that runs, progress with an estimate, Cancel.
class RunBar : public QWidget {
  Q_OBJECT

 public:
  RunBar(Document& document, QWidget* parent = nullptr);
  [[nodiscard]] QPushButton& runButton() { return *m_run; }

 private:
  void followInputs();
  void followStatus();

  Document& m_document;
  QHBoxLayout* m_models = nullptr;
  QLabel* m_text = nullptr;
  QSpinBox* m_limit = nullptr;
  QPushButton* m_run = nullptr;
  QProgressBar* m_progress = nullptr;
};

}  // namespace foxscope::gui
