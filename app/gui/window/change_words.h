#pragma once

#include <QString>

#include "backend/model/spec/intervention.h"

namespace foxscope::gui {

/// What a change does to a head, for a list: "never forgets: f = 1".
QString nameOfChange(Intervention::Kind kind);
/// What that asks the model, in a sentence.
QString meaningOfChange(Intervention::Kind kind);

}  // namespace foxscope::gui
