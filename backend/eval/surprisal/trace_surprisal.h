#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/surprisal/surprisal_table.h"
#include "backend/map/map.h"

namespace foxscope {

/// The distributions that the tokens of a run were drawn from.
struct TokenDistributions {
  std::vector<float> entropy;      ///< [L] nats; empty where the run kept no logits
  std::vector<std::int64_t> rank;  ///< [L] of the token that came, 1: the likeliest; empty likewise
};

/// Entropy and rank out of the logits that a run kept (`--keep logits`), by TokenChoice.
/// @returns nothing if the job was stopped
/// @throws Error if the file behind the trace cannot be read
std::optional<TokenDistributions> distributions_of(const Trace& trace, const Job& job);

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
