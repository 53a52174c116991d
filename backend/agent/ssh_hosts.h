#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace foxscope::agent {

/// The configuration of ssh's client of this user: ~/.ssh/config; empty where there is no home folder.
std::filesystem::path ssh_configuration();

/// The machines that a configuration of ssh names (ssh_config(5)): the words of its Host lines without patterns and
/// without those that begin with a dash, each once, in their order. Files that Include names are read in their place; a
/// relative one lies beside the configuration. What cannot be read is left out.
std::vector<std::string> ssh_hosts(const std::filesystem::path& configuration);

}  // namespace foxscope::agent
