#pragma once

#include <QAction>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// "Compute Saliency": runs the model of the chosen head once more, on the text that it read, and differentiates its
/// loss by every gate (ModelRuns::startSaliency). While a run is in progress it is disabled and says why.
QAction* makeSaliencyAction(RunList& runs, ModelRuns& modelRuns, QObject* parent);

}  // namespace foxscope::gui
