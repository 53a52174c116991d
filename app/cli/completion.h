#pragma once

#include <string>

namespace CLI {
class App;
}

namespace foxscope::cli {

/// A script for a shell that completes commands, options, the words that an option chooses from (behind a comma too),
/// and files, from what the commands say of themselves.
/// @param shell  bash, zsh or fish
/// @throws UsageError for another
std::string completionOf(const CLI::App& program, const std::string& shell);

}  // namespace foxscope::cli
