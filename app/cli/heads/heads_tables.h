#pragma once

#include <span>
#include <string>

#include "app/cli/heads/heads_report.h"

namespace foxscope::cli {

/// The figures that tell heads apart, one line a head, units in the header; what was asked for beside them (the split,
/// gates by class, nearest heads, saliency) as tables of their own instead.
std::string headsTables(std::span<const HeadsReport> reports);

}  // namespace foxscope::cli
