#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The numbers of a model's heads, and its gates by class of the token, as `foxscope eval heads` would have them, and
/// `resets` and `share_below_half`, the number and the share of positions that are resets. Words that are rare are no
/// class of an atlas: they are of no token here.
EvaluatedHeads headsOf(const AtlasModel& model);

/// The place of the head that --head names; without it that of a middle memory, with a note.
/// @throws UsageError for a head that the model does not have, and for one that never forgets
std::size_t chosenHead(FigureRequest& request, const AtlasModel& model);

/// The places of the heads that --head names, each once, whether they forget or not; "all" are all heads. Without it
/// chosenHead.
/// @throws UsageError for a head that the model does not have, else as chosenHead
std::vector<std::size_t> chosenHeads(FigureRequest& request, const AtlasModel& model);

/// "fox 6:1", of the words for what is drawn of a model; the words alone where the atlas has no other model.
std::string modelBefore(const std::string& words, const Atlas& atlas, const AtlasModel& model,
                        const FigureStyle& style);

/// Title, command, the model, and how much it read.
FigureOrigin originOf(const AtlasModel& model, const FigureStyle& style, const char* title);

}  // namespace foxscope::figure
