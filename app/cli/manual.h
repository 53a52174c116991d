#pragma once

#include <string>

namespace CLI {
class App;
}

namespace foxscope::cli {

/// The commands and options of a program as a manual page, in man(7)'s language of troff.
std::string manualPage(const CLI::App& program, const std::string& version);

/// The same as a bash script that completes commands, options, words that an option chooses from, and files.
std::string bashCompletion(const CLI::App& program);

}  // namespace foxscope::cli
