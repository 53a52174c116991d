#pragma once

#include <span>
#include <string>

namespace foxscope {

/// The part of a path that a published file may name: its last component, "." and ".." and slashes at its end resolved.
/// A figure for a double-blind paper must not name its author's home folder.
/// @returns the path itself where it has no components ("", "/")
std::string without_folder(const std::string& path);

/// The words as a shell would take them.
std::string quoted_command_line(std::span<const std::string> words);

}  // namespace foxscope
