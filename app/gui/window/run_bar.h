#pragma once

#include <functional>

#include <QWidget>

#include "app/gui/document/document.h"

class QHBoxLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QSpinBox;

namespace foxscope::gui {

/// "12 s left"
QString timeLeftText(double seconds);

/// What is run and what was: a chip for each model and each run of a file, the text, how many tokens of it; the button
/// that runs, progress with an estimate, Cancel.
class RunBar : public QWidget {
  Q_OBJECT

 public:
  RunBar(Document& document, QWidget* parent = nullptr);
  [[nodiscard]] QPushButton& runButton() { return *m_run; }

 private:
  void changeEvent(QEvent* event) override;
  void followInputs();
  void followHead();
  void fillChips();
  void colourChips();
  /// @param run  the chip's; null where its model has not run
  void addChip(const QString& name, const QString& tip, const Run* run, const std::function<void()>& remove);
  void choose(RunId id);
  void followStatus();

  Document& m_document;
  QHBoxLayout* m_chips = nullptr;
  QLabel* m_text = nullptr;
  QSpinBox* m_limit = nullptr;
  QPushButton* m_run = nullptr;
  QProgressBar* m_progress = nullptr;
};

}  // namespace foxscope::gui
