#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/agent/file_reference.h"
#include "backend/agent/remote_path.h"
#include "backend/base/job.h"

namespace foxscope::agent {

class Remote;

/// Describes a path on another machine. @throws Error where there is none, or the machine cannot be reached
FileFacts file_facts(const std::string& path);

/// read_content of a file on another machine, as it was described: empty also where it is damaged.
std::string content_of(const FileFacts& facts);

/// read_content, and bytes, of a file here or on another machine. @throws Error likewise
std::string content_of(const std::string& path);
std::int64_t bytes_of(const std::string& path);

/// Asks for next to nothing. @returns the seconds that the answer took; nothing if the job was stopped
/// @throws Error likewise
std::optional<double> round_trip(Remote& remote, const Job& job);

/// The entries of a folder on another machine, without those whose names no path can have.
/// @returns nothing if the job was stopped
/// @throws Error likewise
std::optional<FolderList> list_folder(const RemotePath& folder, const Job& job);

/// The devices of another machine that models run on, the CPU last.
/// @returns nothing if the job was stopped
/// @throws Error likewise
std::optional<std::vector<DeviceFacts>> list_devices(const RemoteHost& host, const Job& job);

/// A path for a run that is made on another machine, in the folder there that keeps runs until they are saved.
/// @param name    of its file, without the ending
/// @param ending  of its file, with the dot
/// @returns nothing if the job was stopped
/// @throws Error likewise
std::optional<RemotePath> place_for_run(const RemoteHost& host, const std::string& name, const Job& job,
                                        const std::string& ending = ".h5");
/// Removes such a run, or a file that a command left there ("leave" of docs/agent.md); nothing where it has gone, and
/// for any other file.
void forget_run(const RemotePath& run, const Job& job);

/// A path there from / on, for who knows no "~", such as the words of a command. The file need not be there.
/// @throws Error likewise
std::string path_from_root(const RemotePath& path);

/// SHA-256 of the weights of a checkpoint on another machine, lower-case hexadecimal.
/// @returns nothing if the job was stopped
/// @throws Error likewise, and for a folder that is no checkpoint
std::optional<std::string> weights_of(const RemotePath& folder, const Job& job);

/// A file here: the path itself, or of one on another machine a copy under the same name, which
/// remove_temporary_folders takes away. A file that has not changed is copied once.
/// @returns an empty path if the job was stopped
/// @throws Error likewise, and where the copy has no room
std::filesystem::path file_here(const std::string& path, const Job& job = {});

/// Copies a file of another machine into one here, which appears under its name when it is whole.
/// @returns false if the job was stopped
/// @throws Error likewise, as AtomicFile, and where the file changes meanwhile
bool fetch_file(const RemotePath& from, const std::filesystem::path& to, bool overwrite, const Job& job);

/// Looks whether a file can be written on another machine.
/// @returns false if the job was stopped
/// @throws Error in the words of AtomicFile there, and where the machine cannot be reached
bool require_writable_there(const RemotePath& file, bool overwrite, const Job& job);

/// Copies a file here into one on another machine, which appears under its name when it is whole.
/// @returns false if the job was stopped
/// @throws Error likewise
bool send_file(const std::filesystem::path& from, const RemotePath& to, bool overwrite, const Job& job);

/// Copies a file of another machine into one there, likewise.
/// @param to  its path there, from / or from ~/ on
/// @returns false if the job was stopped
/// @throws Error likewise
bool copy_there(const RemotePath& from, const std::string& to, bool overwrite, const Job& job);

}  // namespace foxscope::agent
