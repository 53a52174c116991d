#include "app/gui/document/saliency_action.h"

#include <optional>

namespace foxscope::gui {

QAction* makeSaliencyAction(Document& document, QObject* parent) {
  auto* action = new QAction(parent);
  action->setToolTip(QObject::tr("Runs the model of the chosen head once more, forward and back"));
  QObject::connect(action, &QAction::triggered, &document,
                   [&document] { document.startSaliency(document.selection().head().run, std::nullopt); });
  const auto follow = [action, &document] {
    const bool running = document.runStatus().running;
    action->setEnabled(!running);
    action->setText(running ? QObject::tr("A run is being made …") : QObject::tr("Compute Saliency"));
  };
  QObject::connect(&document, &Document::runStatusChanged, action, follow);
  follow();
  return action;
}

}  // namespace foxscope::gui
