#pragma once

#include <cstddef>
#include <string>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The numbers of a model's heads, as `foxscope eval heads` would have them, and `share_below_half`, the share of
/// positions that are resets.
EvaluatedHeads headsOf(const AtlasModel& model);

/// The place of the head that --head names; without it that of a middle memory, with a note.
/// @throws UsageError for a head that the model does not have, and for one that never forgets
std::size_t chosenHead(FigureRequest& request, const AtlasModel& model);

/// Title, command, the model, and how much it read.
FigureOrigin originOf(const AtlasModel& model, const FigureStyle& style, const char* title);

}  // namespace foxscope::figure
