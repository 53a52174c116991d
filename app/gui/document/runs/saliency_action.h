#pragma once

#include <QAction>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// "Compute Saliency": runs the model of the chosen head once more, on the text that it read, for what its loss owes to
/// every gate (ModelRuns::startSaliency). Disabled, and saying why, while a run is being made.
QAction* makeSaliencyAction(RunList& runs, ModelRuns& modelRuns, QObject* parent);

}  // namespace foxscope::gui
