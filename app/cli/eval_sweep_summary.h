#pragma once

#include <string>

#include "backend/eval/sweep.h"

namespace foxscope::cli {

/// The heads whose change matters most, for people: change and error, factor of the perplexity, and the tokens that are
/// hurt and helped most.
std::string sweepText(const SweepEvaluation& sweep);

/// All heads, with ten tokens each that are hurt and helped.
/// @param kind    what the file is, for `foxscope info`; empty: it was just written
/// @param result  how it was computed; may be null
std::string sweepJson(const std::string& kind, const std::string& path, const SweepEvaluation& sweep,
                      const SweepResult* result);

}  // namespace foxscope::cli
