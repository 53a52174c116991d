#include "app/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/held_output.h"
#include "app/description/number_text.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/said_progress.h"
#include "backend/agent/shown_names.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/text/tokenizer.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr std::string_view kEraseLine = "\r\033[K";
constexpr std::string_view kRed = "\033[31m";
constexpr std::string_view kPlain = "\033[0m";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A failure to write to standard error is dropped: there is nowhere to report it.
void writeToStandardError(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A line that an agent takes.
void writeToAgent(const nlohmann::json& line) {
  writeToStandardError(agent::kProgressMark + line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                       '\n');
}

std::string oneLine(std::string_view text) {
  std::string line = visible(agent::with_names_of_copies(text), "\n");
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// Controls are Unicode's category Cc; embeddings, overrides and isolates turn the direction of all that follows.
bool controlsTerminal(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::function<void()>& guardOfOutput() {
  static std::function<void()> guard;
  return guard;
}

void writeToStandardOutput(std::string_view data) {
  if (HeldOutput::take(data)) return;
  if (guardOfOutput()) guardOfOutput()();
  while (!data.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) throw OutputClosed{};
    if (written < 0) {
      throw Error(
          fmt::format("standard output: {}: send the output elsewhere, or free some space", std::strerror(errno)));
    }
    data.remove_prefix(static_cast<std::size_t>(written));
  }
}

// "3 of 9 layers", "12.3 MB of 137.3 MB".
std::string amountText(const Progress& progress) {
  if (progress.unit == "bytes") {
    return fmt::format("{} of {}", sizeText(static_cast<double>(progress.done)),
                       sizeText(static_cast<double>(progress.total)));
  }
  return fmt::format("{} of {} {}", count_text(progress.done), count_text(progress.total), progress.unit);
}

}  // namespace

Console::Console() : m_terminal(isatty(STDERR_FILENO) == 1) {
  m_lines = environment(agent::kUnderAgent) == "1";
  m_colour = m_terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

void Console::setSubject(std::string subject) {
  const std::lock_guard lock(m_mutex);
  m_subject = std::move(subject);
  m_stage.clear();
}

void Console::note(std::string_view text) {
  if (m_verbosity != Verbosity::quiet) line("", text);
}

void Console::report(std::string_view text) {
  if (m_verbosity != Verbosity::quiet) print(text);
}

void Console::detail(std::string_view text) {
  if (m_verbosity == Verbosity::verbose) line("", text);
}

void Console::error(std::string_view text) { line(kRed, text); }

void Console::line(std::string_view colour, std::string_view text) {
  const std::lock_guard lock(m_mutex);
  writeLine(colour, text);
}

void Console::writeLine(std::string_view colour, std::string_view text) {
  eraseBar();
  const bool coloured = m_colour && !colour.empty();
  writeToStandardError(
      fmt::format("{}foxscope:{} {}\n", coloured ? colour : "", coloured ? kPlain : "", oneLine(text)));
}

void Console::progress(const Progress& progress) {
  const auto now = Clock::now();
  const std::lock_guard lock(m_mutex);
  const bool newStage = m_stage != progress.stage;
  if (newStage) {
    m_stage = progress.stage;
    m_stageStart = now;
    if (m_verbosity == Verbosity::verbose) writeLine("", stageText());
  }
  if (m_verbosity == Verbosity::quiet) return;
  // Work may turn out larger than its estimate.
  const double share =
      progress.total > 1
          ? std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0)
          : 0;
  if (!m_terminal && !m_lines) {
    if (!m_pace.due(now)) return;
    std::string text = stageText();
    if (progress.total > 1) {
      text += fmt::format(": {:.0f} %, {}{}", 100 * share, amountText(progress), timeLeft(share, now));
    }
    writeLine("", text);
    return;
  }
  if (!newStage && now - m_lastDraw < std::chrono::milliseconds(100)) return;
  m_lastDraw = now;
  if (m_lines) {
    const std::string stage = stageText();
    writeToAgent(agent::progress_json({progress.done, progress.total, progress.unit, stage}));
    return;
  }

  std::string text = stageText();
  if (progress.total > 1) {
    const int filled = static_cast<int>(share * kBarWidth);
    text += fmt::format(" [{:#>{}}{:.>{}}] {:3.0f} %", "", filled, "", kBarWidth - filled, 100 * share);
    text += ", " + amountText(progress) + timeLeft(share, now);
  }
  writeToStandardError(fmt::format("{}{}", kEraseLine, oneLine(text)));
  m_barVisible = true;
}

std::string Console::stageText() const {
  return m_subject.empty() ? m_stage : fmt::format("{}: {}", m_subject, m_stage);
}

/// ", 2 min 10 s left", or nothing as long as that is not known.
std::string Console::timeLeft(double share, Clock::time_point now) const {
  const double elapsed = std::chrono::duration<double>(now - m_stageStart).count();
  return elapsed > 0.5 && share > 0 ? fmt::format(", {} left", durationText(elapsed * (1 - share) / share)) : "";
}

void Console::outputBytes(std::int64_t bytes) {
  if (m_lines) writeToAgent({{agent::kOutputBytes, bytes}});
}

void Console::endProgress() {
  const std::lock_guard lock(m_mutex);
  eraseBar();
}

void Console::eraseBar() {
  if (m_barVisible) writeToStandardError(kEraseLine);
  m_barVisible = false;
}

void Console::write(std::string_view data) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  terminal ? print(data) : writeToStandardOutput(agent::with_names_of_copies(data));
}

void Console::guardOutput(std::function<void()> guard) { guardOfOutput() = std::move(guard); }

void Console::print(std::string_view report) {
  writeToStandardOutput(visible(agent::with_names_of_copies(report), "\n\t"));
}

std::string visible(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    for (std::size_t place = 0; place < valid;) {
      const Character character = character_at(text, place);
      const std::string_view bytes = text.substr(place, character.bytes);
      place += character.bytes;
      if (controlsTerminal(character.code_point) && kept.find(bytes) == std::string_view::npos) {
        fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<std::uint32_t>(character.code_point));
      } else {
        result += bytes;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned char>(text.front()));
    text.remove_prefix(1);
  }
  return result;
}

std::string durationText(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace foxscope::cli
