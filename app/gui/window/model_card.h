#pragma once

#include <QDialog>

#include "app/gui/document/runs/run_list.h"

class QTextBrowser;

namespace foxscope::gui {

/// The facts of a model and its run, as `foxscope info` says it; can be selected and copied. Checkpoints are read on a
/// job. It goes when it is closed.
class ModelCard : public QDialog {
  Q_OBJECT

 public:
  ModelCard(RunList& runs, const ListRow& row, QWidget* parent);
  [[nodiscard]] QString text() const;

 private:
  void read(const ListRow& row);

  RunList& m_runs;
  QTextBrowser* m_text = nullptr;
};

}  // namespace foxscope::gui
