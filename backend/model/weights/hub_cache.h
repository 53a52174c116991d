#pragma once

#include <filesystem>
#include <string>

namespace foxscope {

/// The folder that a path or hub id stands for.  @throws Error that says what to run instead of downloading
std::filesystem::path resolve_checkpoint_folder(const std::string& path);

/// Whether that is how a path is taken: of the form owner/name, and no file or folder here.
bool is_hub_id(const std::string& path);

}  // namespace foxscope
