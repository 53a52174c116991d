#pragma once

#include <filesystem>

namespace foxscope::agent {

/// A new folder that only this user may enter, in the system's place for temporary files.
/// @throws Error that says to set TMPDIR
std::filesystem::path make_temporary_folder();

/// Leaves one of these folders where it is, for good.
void leave_temporary_folder(const std::filesystem::path& folder);

/// Removes these folders, all that are left; from any thread, also where a signal ends the process.
void remove_temporary_folders();

}  // namespace foxscope::agent
