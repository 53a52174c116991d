#pragma once

#include <functional>
#include <string_view>

namespace foxscope {

/// The subject of a log line: files that were read and parts of them that were skipped, text and tokenizers, models and
/// where they compute, maps, evaluations, the window's jobs and settings.
enum class LogCategory { file, text, model, map, eval, window };

const char* to_string(LogCategory category);

/// Whether log lines are printed (`-v`). Reads one flag.
bool logging();

/// Prints "[model] LINE". Without `-v` nothing happens.
void write_log(LogCategory category, std::string_view line);

/// Prints a line for `-v`; from any thread. Without `-v` the line is not even made.
/// @param make_line  returns the line: one line, without the program's name
template <typename MakeLine>
void log_line(LogCategory category, const MakeLine& make_line) {
  if (logging()) write_log(category, make_line());
}

/// While it lives, all lines go to it: whole, one at a time, from whatever thread they come. One at a time in a
/// process.
class LogReader {
 public:
  /// @param read  must not log itself
  explicit LogReader(std::function<void(std::string_view line)> read);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;
};

}  // namespace foxscope
