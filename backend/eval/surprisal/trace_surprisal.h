#pragma once

#include <string>

#include "backend/eval/predictions/predictions.h"
#include "backend/eval/surprisal/surprisal_table.h"
#include "backend/map/map.h"

namespace foxscope {

/// The table of `eval surprisal` for the text of one run, without running its model again: surprisal is the loss at the
/// position that predicts a token; the gate is one head's at the position that reads the token. No position reads the
/// last token: its gate is NaN. Without distributions entropies are NaN and ranks 0.
/// @param head           whose gate fills the column gate_LAYER_HEAD; no column if it has no gate or kept none
/// @param document       name of the text
/// @param distributions  [L], or empty
/// @throws Error for a run of token ids and one that kept no losses, with the remedy
Surprisals surprisals_of(const HeadOf& head, const std::string& document, WordRule rule,
                         const TokenDistributions& distributions);

}  // namespace foxscope
