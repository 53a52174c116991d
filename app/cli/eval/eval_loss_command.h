#pragma once

#include <string>
#include <vector>

#include "backend/eval/loss/loss.h"

namespace foxscope::cli {

/// The text of an evaluation for people: a table of models, and one of their differences.
/// @param timings  of the models, as they were computed now; empty for an evaluation out of a file
std::string lossText(const LossEvaluation& evaluation, const std::vector<LossTiming>& timings);

/// The same as JSON: {"output", "source", "length", "models": [...], "differences": [...]}, unknown numbers null.
/// @param kind  of a file that was read: {"kind", "path", ...}; empty: the path is an output
std::string lossJson(const std::string& kind, const std::string& path, const LossEvaluation& evaluation,
                     const std::vector<LossTiming>& timings);

}  // namespace foxscope::cli
