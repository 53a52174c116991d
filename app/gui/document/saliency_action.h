#pragma once

#include <QAction>

#include "app/gui/document/document.h"

namespace foxscope::gui {

/// "Compute Saliency": runs the model of the chosen head once more, on the text that it read, for what its loss owes to
/// every gate (Document::startSaliency). Disabled, and saying why, while a run is being made.
QAction* makeSaliencyAction(Document& document, QObject* parent);

}  // namespace foxscope::gui
