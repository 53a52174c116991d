#include "app/gui/document/runs/saliency_action.h"

#include <optional>

namespace foxscope::gui {

QAction* makeSaliencyAction(RunList& runs, ModelRuns& modelRuns, QObject* parent) {
  auto* action = new QAction(parent);
  action->setToolTip(QObject::tr("Runs the model of the chosen head once more, forward and backward"));
  QObject::connect(action, &QAction::triggered, &modelRuns,
                   [&runs, &modelRuns] { modelRuns.startSaliency(runs.selection().head().run, std::nullopt); });
  const auto follow = [action, &modelRuns] {
    const bool running = modelRuns.runStatus().running;
    action->setEnabled(!running);
    action->setText(running ? QObject::tr("A run is in progress …") : QObject::tr("Compute Saliency"));
  };
  QObject::connect(&modelRuns, &ModelRuns::runStatusChanged, action, follow);
  follow();
  return action;
}

}  // namespace foxscope::gui
