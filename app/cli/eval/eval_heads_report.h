#pragma once

#include <string>

#include "backend/eval/heads/heads_file.h"

namespace foxscope::cli {

/// The figures that tell the heads of each model apart, with standard errors, one line a head.
std::string evaluatedHeadsTable(const HeadsEvaluation& evaluation);
/// Every number with its error and unit; what is not known is null.
std::string evaluatedHeadsJson(const HeadsEvaluation& evaluation);
/// One line a model and head; each number NAME is followed by NAME_error. A missing value is empty.
std::string evaluatedHeadsCsv(const HeadsEvaluation& evaluation);

}  // namespace foxscope::cli
