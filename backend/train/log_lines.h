#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace foxscope {

/// How far a file of JSON lines was read.
struct LogPlace {
  std::size_t bytes = 0;
  std::int64_t lines = 0;
  std::string last;  ///< the last line, by which the file is known again
};

/// Whether a file still has the lines up to a place: it is as long, and the last of them is the same.
bool has_lines_up_to(const std::filesystem::path& path, const LogPlace& place);

/// Calls with every whole line of a log behind a place, and moves the place on. A last line without its end is left
/// for later; a missing file has no lines. At no time is more than a line in memory.
/// @param take  gets an object whose "step" is a whole number from 1, and where its line ends, in bytes; false ends the
///              reading before the place is behind the line. Throws json::exception or std::domain_error where a figure
///              is missing or of another kind
/// @throws Error naming the file and the line
void read_lines(const std::filesystem::path& path, LogPlace& place,
                const std::function<bool(const nlohmann::json&, std::size_t end)>& take);
/// Reads a file from the first line on.
void read_lines(const std::filesystem::path& path,
                const std::function<bool(const nlohmann::json&, std::size_t end)>& take);

/// A whole number of a line.  @throws std::domain_error where it is none, or below the least
std::int64_t whole_number_of(const nlohmann::json& line, const char* key, std::int64_t least);

}  // namespace foxscope
