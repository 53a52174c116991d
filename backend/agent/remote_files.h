#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "backend/agent/file_reference.h"
#include "backend/agent/remote_path.h"
#include "backend/base/job.h"

namespace foxscope::agent {

/// Describes a path on another machine. @throws Error where there is none, or the machine cannot be reached
FileFacts file_facts(const std::string& path);

/// read_content, and bytes, of a file here or on another machine. @throws Error likewise
std::string content_of(const std::string& path);
std::int64_t bytes_of(const std::string& path);

/// The entries of a folder on another machine. @throws Error likewise
FolderList list_folder(const RemotePath& folder);

/// A file here: the path itself, or of one on another machine a copy under the same name, which
/// remove_temporary_folders takes away. A file that has not changed is copied once.
/// @returns an empty path if the job was stopped
/// @throws Error likewise, and where the copy has no room
std::filesystem::path file_here(const std::string& path, const Job& job = {});

/// Copies a file of another machine into one here, which appears under its name when it is whole.
/// @returns false if the job was stopped
/// @throws Error likewise, as AtomicFile, and where the file changes meanwhile
bool fetch_file(const RemotePath& from, const std::filesystem::path& to, bool overwrite, const Job& job);

/// Copies a file here into one on another machine, which appears under its name when it is whole.
/// @returns false if the job was stopped
/// @throws Error likewise
bool send_file(const std::filesystem::path& from, const RemotePath& to, bool overwrite, const Job& job);

}  // namespace foxscope::agent
