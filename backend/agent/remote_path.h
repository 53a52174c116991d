#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope::agent {

/// A machine that ssh reaches.
struct RemoteHost {
  std::string user;  ///< empty: ssh's own choice
  std::string host;  ///< a name of ssh's configuration, or an address; of IPv6 without its brackets
  int port = 0;      ///< 0: ssh's own choice

  bool operator==(const RemoteHost&) const = default;
  auto operator<=>(const RemoteHost&) const = default;
  /// "USER@HOST:PORT", as an URL has it between "ssh://" and the path.
  [[nodiscard]] std::string words() const;
};

/// A file or folder on another machine: ssh://[USER@]HOST[:PORT]/PATH.
struct RemotePath {
  RemoteHost host;
  std::string path;  ///< absolute, or "~" and "~/..." in the user's home folder there

  bool operator==(const RemotePath&) const = default;
  /// As parse_remote_path reads it.
  [[nodiscard]] std::string url() const;
};

/// A sentence from another machine, with its name before it: "ssh://box/run.h5: is damaged" where it begins with a
/// path, and else "box: out of memory".
/// @param host  RemoteHost::words
std::string said_there(std::string_view host, std::string_view sentence);

/// Whether a path is meant to be on another machine: it begins with "ssh://".
bool is_remote(std::string_view path);

/// Reads an URL. "%41" stands for the byte 0x41, as in any URL, so that "%" of a name is "%25".
/// @throws UsageError naming it: no host, no path, a port that is none, a name that is not UTF-8, and a user or host
///         that ssh would take for one of its options
RemotePath parse_remote_path(const std::string& url);

/// without_folder of a path here, or of what an URL names: the command that is recorded is the same on both machines.
/// @throws UsageError as parse_remote_path
std::string name_without_folder(const std::string& path);

/// Words as a shell takes them from a line, without expanding anything: blanks part them, quotes and backslashes keep
/// blanks.
/// @param name  of what is split, in errors: "FOXSCOPE_SSH"
/// @throws UsageError where a quote is not closed
std::vector<std::string> shell_words(std::string_view line, const std::string& name);

/// The command that starts an agent on a machine: ssh, or the words of FOXSCOPE_SSH, then -p PORT, [USER@]HOST, the
/// program (foxscope, or FOXSCOPE_REMOTE_PROGRAM) and "agent". @throws UsageError as shell_words
std::vector<std::string> agent_command(const RemoteHost& host);

}  // namespace foxscope::agent
