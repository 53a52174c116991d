#pragma once

#include "app/cli/command.h"

namespace foxscope::cli {

/// Each adds one subcommand of `foxscope eval`.
void addEvalHeadsCommand(CLI::App& eval, Selection& selection);
void addEvalLossCommand(CLI::App& eval, Selection& selection);
void addEvalNeedleCommand(CLI::App& eval, Selection& selection);
void addEvalSurprisalCommand(CLI::App& eval, Selection& selection);
void addEvalSweepCommand(CLI::App& eval, Selection& selection);
void addEvalImportCommand(CLI::App& eval, Selection& selection);

}  // namespace foxscope::cli
