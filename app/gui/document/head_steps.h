#pragma once

#include <functional>
#include <optional>

#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// The head of the same run that comes `by` places after one in the order of a number, the largest first; heads whose
/// number is not known come last, by layer. Ends do not go round.
/// @param value  NaN where it is not known
/// @returns nothing where there is no such place, or no such run
std::optional<HeadChoice> headInOrder(const RunList& runs, const HeadChoice& from, int by,
                                      const std::function<double(const HeadChoice&)>& value);

/// The head of the same number `by` layers further down, or the last one of a layer that has fewer. Layers without
/// heads are passed over.
std::optional<HeadChoice> headOfLayer(const RunList& runs, const HeadChoice& from, int by);

}  // namespace foxscope::gui
