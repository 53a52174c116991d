#pragma once

#include <QString>

#include "backend/model/spec/intervention.h"

namespace foxscope::gui {

/// A change to a head in a few words: "never forgets: f = 1".
QString nameOfChange(Intervention::Kind kind);
/// The question that this change asks the model, in a sentence.
QString meaningOfChange(Intervention::Kind kind);

}  // namespace foxscope::gui
