#pragma once

#include "app/cli/command.h"

namespace foxscope::cli {

/// Each adds one subcommand of `foxscope eval`.
void addEvalAtlasCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalHeadsCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalLossCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalNeedleCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalSurprisalCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalSweepCommand(CLI::App& eval, ParsedCommand& parsed);
void addEvalImportCommand(CLI::App& eval, ParsedCommand& parsed);

}  // namespace foxscope::cli
