#pragma once

#include <string>
#include <vector>

#include "app/cli/command.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace foxscope::cli {

/// "--model, --output are required: ", for where to read on behind it.
std::string requiredText(const std::vector<std::string>& names);

/// The name of the chosen command with those above it: "foxscope run", "foxscope eval loss".
std::string helpfulName(const CLI::App& program);

/// The error of a command line that could not be parsed, in one line: an option or a command that there is none of
/// comes before what is missing, and all that is missing is named at once.
std::string parseErrorText(const CLI::App& program, const CLI::ParseError& error, const OneOfOptions& oneOf);

}  // namespace foxscope::cli
