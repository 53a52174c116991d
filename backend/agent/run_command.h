#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/agent/remote_path.h"
#include "backend/base/job.h"

namespace foxscope::agent {

/// The output and the notes that a command on another machine left.
struct CommandResult {
  std::string output;              ///< of standard output
  std::vector<std::string> notes;  ///< lines for people
};

/// Runs a command of the program on another machine. Its progress goes to the job. Never runs twice.
/// @param arguments  without the program's name
/// @param input      for its standard input
/// @returns nothing if the job was stopped, which ends the command
/// @throws Error in the command's own last words, with the machine's name, where it fails; as Remote::ask
std::optional<CommandResult> run_command(const RemoteHost& host, const std::vector<std::string>& arguments,
                                         const std::string& input, const Job& job);

}  // namespace foxscope::agent
