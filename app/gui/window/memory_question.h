#pragma once

#include "app/gui/document/runs/model_runs.h"

class QWidget;

namespace foxscope::gui {

/// Asks, without waiting, what is to be done about runs that need more memory than is free: run anyway, read fewer
/// tokens, or nothing. A newer question takes the place of the older.
void askForMemory(const MemoryQuestion& question, ModelRuns& modelRuns, QWidget& window);

}  // namespace foxscope::gui
