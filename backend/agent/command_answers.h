#pragma once

#include "backend/agent/agent.h"

namespace foxscope::agent {

/// Set in the environment of commands that an agent starts: they end with it, and write their progress line by line,
/// as JSON behind kProgressMark.
inline constexpr const char* kUnderAgent = "FOXSCOPE_UNDER_AGENT";
/// The member of such a line that says instead how many bytes the command's output will take.
inline constexpr const char* kOutputBytes = "output_bytes";
inline constexpr char kProgressMark = '\x1e';

/// Requests that run a command of this program (docs/agent.md): folder makes one for its files, which goes away with
/// the agent; command runs it.
void add_command_answers(Agent& agent);

}  // namespace foxscope::agent
