#pragma once

#include <optional>
#include <string>

#include "backend/eval/sweep/sweep.h"

namespace foxscope::cli {

/// The heads whose change matters most, for people: change and error, factor of the perplexity, and the tokens that are
/// hurt and helped most; which heads are beyond chance, or, with a false discovery rate, which are discovered at it.
/// @param rate  of false discoveries
std::string sweepText(const SweepEvaluation& sweep, std::optional<double> rate = {});

/// All heads, with ten tokens each that are hurt and helped.
/// @param kind    what the file is, for `foxscope info`; empty: it was just written
/// @param result  how it was computed; may be null
/// @param rate    of false discoveries
std::string sweepJson(const std::string& kind, const std::string& path, const SweepEvaluation& sweep,
                      const SweepResult* result, std::optional<double> rate = {});

}  // namespace foxscope::cli
