#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/base/job.h"
#include "backend/base/line_pace.h"

namespace foxscope::cli {

enum class Verbosity { quiet, normal, verbose };

/// Standard output was closed by its reader (`foxscope ... | head`): not an error, there is just nobody left to tell.
struct OutputClosed {};

/// Messages of the program on standard error, and progress there: a bar where it is a terminal, else a line from time
/// to time (LinePace). Each message is made `visible`, stays one line and calls copies of files by what they are copies
/// of. Safe to use from several threads.
class Console {
 public:
  Console();

  void setVerbosity(Verbosity verbosity) { m_verbosity = verbosity; }
  /// Put before the stage that progress reports name, for instance "fox-pro (1 of 2)".
  void setSubject(std::string subject);

  void note(std::string_view line);  ///< unless -q
  /// Reports to people what was done, beside the file that holds the result: on standard output, unless -q.
  /// @throws likewise as `print`
  void report(std::string_view text);
  void detail(std::string_view line);  ///< only with -v
  void error(std::string_view line);   ///< always

  /// Draws the bar at most ten times a second, or writes a line where one is due, with an estimate of the time that
  /// remains. With -v each stage is a line, with -q there is nothing.
  void progress(const Progress& progress);
  /// Tells an agent, under which this program runs, how many bytes the output will take at least.
  void outputBytes(std::int64_t bytes);
  /// Removes the bar.
  void endProgress();

  /// Writes data to standard output: exactly, unless that is a terminal, which gets what `visible` makes of it. JSON
  /// stays JSON of the same meaning.
  /// @throws OutputClosed, or Error for any other failure (disk full)
  static void write(std::string_view data);
  /// Writes a report for people to standard output: what `visible` makes of it, since a pager passes it on.
  /// @throws likewise
  static void print(std::string_view report);
  /// Sets what both call first. It throws where nothing must be written.
  static void guardOutput(std::function<void()> guard);

 private:
  using Clock = LinePace::Clock;

  void line(std::string_view colour, std::string_view text);
  // The following are called with the lock held.
  void writeLine(std::string_view colour, std::string_view text);
  [[nodiscard]] std::string stageText() const;
  [[nodiscard]] std::string timeLeft(double share, Clock::time_point now) const;
  void eraseBar();

  std::mutex m_mutex;
  Verbosity m_verbosity = Verbosity::normal;
  bool m_terminal = false;
  bool m_colour = false;
  bool m_lines = false;  ///< progress is written as lines of JSON: an agent passes it on
  bool m_barVisible = false;
  std::string m_subject;
  std::string m_stage;
  Clock::time_point m_stageStart;
  Clock::time_point m_lastDraw;
  LinePace m_pace;  ///< of lines where there is no terminal
};

/// Text from outside (a file's attributes, a name, a model's words) as a terminal may have it: control characters,
/// which move its cursor, set its title or answer in the user's name, and those that turn the direction of writing are
/// written as \u001b, and bytes that are not UTF-8 as \x9b.
/// @param kept  control characters that are meant, as line ends in a report
std::string visible(std::string_view text, std::string_view kept = "");

/// "1 min 20 s", "12 s", "0.4 s".
std::string durationText(double seconds);

}  // namespace foxscope::cli
