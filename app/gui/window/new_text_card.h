#pragma once

#include <QFrame>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

class QLabel;

namespace foxscope::gui {

/// The time that a run of the text will take, judged by the runs that there are: "about 18,400 tokens; fox about 15 s".
/// Empty where none of them has a text.
QString estimateOfRun(const RunList& runs, const ModelRuns& modelRuns);

/// A card over the maps that says that they are of another text than the one that was opened, what running that will
/// take, and runs it. What is of the other text lies under a veil until then.
class NewTextCard : public QFrame {
  Q_OBJECT

 public:
  /// @param maps    over which the card stands
  /// @param others  that lie under a veil too
  NewTextCard(RunList& runs, ModelRuns& modelRuns, QWidget& maps, const QList<QWidget*>& others);
  [[nodiscard]] QString text() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void follow();
  void place();

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  QList<QWidget*> m_veils;
  QLabel* m_text;
  std::string m_dismissed;  ///< text whose card was closed
};

}  // namespace foxscope::gui
