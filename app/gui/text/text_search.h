#pragma once

#include <optional>
#include <vector>

#include <QString>

#include "app/gui/text/text_shape.h"
#include "backend/base/job.h"

namespace foxscope::gui {

/// Every place at which the text holds the words, in order, not overlapping; cell 0, which is no text, is left out.
/// @returns nothing if the job was stopped
std::optional<std::vector<Stretch>> findInText(const TextShape& shape, const QString& words,
                                               Qt::CaseSensitivity sensitivity, const Job& job);

/// A position from what a user types: "1200", a percentage of the text, "35 %", or a distance, "+500" or "-20".
/// @param from  that distances are counted from
/// @returns nothing where it is none of these, or outside 0 to length - 1, or 0 % to 100 %
std::optional<std::int64_t> positionFromInput(const QString& input, std::int64_t length, std::int64_t from);

}  // namespace foxscope::gui
