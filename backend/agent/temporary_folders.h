#pragma once

#include <filesystem>
#include <string>

namespace foxscope::agent {

/// A new folder that only this user may enter, in the system's place for temporary files. The process holds a lock on
/// it until it ends, whatever ends it.
/// @throws Error that says to set TMPDIR
std::filesystem::path make_temporary_folder();

/// The same, for a client of an agent.
std::filesystem::path make_folder_of_client();

/// Removes such folders whose processes have ended without removing them, as after SIGKILL: those that nobody locks,
/// among the first 20,000 entries of the place for temporary files. Other processes' folders stay, and those that were
/// left for good.
void remove_left_folders();

/// Leaves one of these folders where it is, for good. @returns whether it was one
bool leave_temporary_folder(const std::filesystem::path& folder);

/// Whether a folder is one of a client by its place and name, also if an earlier agent made it.
bool is_folder_of_client(const std::filesystem::path& folder);

/// Removes these folders, all that are left; from any thread, also where a signal ends the process.
void remove_temporary_folders();

/// $XDG_CACHE_HOME/foxscope/NAME, else ~/.cache/foxscope/NAME. @throws Error where there is no home folder
std::filesystem::path cache_folder(const std::string& name);

/// The same, made where it is missing, so that only this user may enter. Files and folders in it that nobody has used
/// for seven days are removed.
/// @throws Error that says to set XDG_CACHE_HOME
std::filesystem::path make_cache_folder(const std::string& name);

}  // namespace foxscope::agent
