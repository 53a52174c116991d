#pragma once

#include <string>

#include "backend/agent/agent.h"
#include "backend/agent/file_reference.h"

namespace foxscope::agent {

/// Requests about files and folders: stat, list, fetch, write (docs/agent.md).
void add_file_answers(Agent& agent);

/// A path of a request as this machine has it: "~" is the home folder. @throws Error for a path that is not absolute
std::string local_path(const std::string& path);

/// Describes a path here. @throws Error where there is nothing
FileFacts file_facts_of(const std::string& path);

/// Identifies a file by its size, the time of its last change, its place on the disk and what it begins with, so that
/// another file under its name has another identity.
/// @throws Error where there is no such file
std::string file_identity(const std::string& path);

}  // namespace foxscope::agent
