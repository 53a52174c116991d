#include "app/cli/remote_command.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/interrupt.h"
#include "app/cli/output.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/fields.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/shown_names.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/text/file_bytes.h"

namespace foxscope::cli {
namespace {

/// Commands whose run files and evaluations are read from afar.
constexpr std::array kReadFromAfar = {"info", "map", "heads", "compare", "figure", "page", "open"};

/// "ssh://..." of [NAME=]ssh://...; empty for what is here.
std::string urlIn(const std::string& value) {
  const std::size_t place = value.find("ssh://");
  if (place == 0) return value;
  const bool named = place != std::string::npos && value[place - 1] == '=' && value.find('/') > place;
  return named ? value.substr(place) : "";
}

/// Makes a folder there for one file, so that the file keeps its name.
/// @returns the file's path; an empty one if the job was stopped
agent::RemotePath placeFor(const std::string& name, agent::Remote& remote, const Job& job) {
  const auto answer = remote.ask(agent::request_for("folder"), job, agent::Again::never);
  if (!answer) return {};
  return {remote.host(), agent::take<std::string>(*answer, "answer") + "/" + name};
}

std::string nameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// Moves what a command has made there to the folder that keeps runs until they are saved.
/// @param why  it cannot be here
[[noreturn]] void keepThere(const agent::RemotePath& made, const std::string& here, const Error& why, const Job& job) {
  const std::filesystem::path name = std::filesystem::path(here).filename();
  std::optional<agent::RemotePath> kept;
  try {
    kept = agent::place_for_run(made.host, name.stem().string(), job, name.extension().string());
    if (kept && !agent::copy_there(made, kept->path, /*overwrite=*/false, job)) kept.reset();
  } catch (const Error&) {
    kept.reset();
  }
  if (!kept) throw Error(why.what());
  throw Error(fmt::format("{}; what was made is kept in {} until nobody has read it for seven days: copy it from there",
                          why.what(), kept->url()));
}

/// Refuses a run whose output has no room here.
void requireRoom(const std::string& output, bool force, const nlohmann::json& bytes) {
  if (bytes.is_number_unsigned()) AtomicFile(output, force).require_space(bytes.get<std::uint64_t>());
}

bool reads(const std::string& command) { return std::ranges::find(kReadFromAfar, command) != kReadFromAfar.end(); }

}  // namespace

RemoteCommand::RemoteCommand(std::vector<std::string> arguments, const ParsedCommand& parsed)
    : m_arguments(std::move(arguments)), m_parsed(parsed) {
  agent::RemoteHost host;
  for (const PathArgument& argument : parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty()) continue;
    const agent::RemotePath path = agent::parse_remote_path(url);
    m_needed = m_needed || argument.output || !reads(parsed.command);
    if (!argument.model) continue;
    if (!m_place.empty() && path.host != host) {
      throw UsageError(fmt::format("{}: models on two machines, {} and {}, do not run together: run each by itself",
                                   url, host.words(), path.host.words()));
    }
    m_place = url;
    host = path.host;
  }
  const bool models = !m_place.empty();
  if (!models) m_place = placeOfFolder();
  m_needed = m_needed || !m_place.empty();
  for (const PathArgument& argument : parsed.paths) {
    if (!models || !argument.model || !urlIn(argument.value).empty()) continue;
    throw UsageError(fmt::format("{}: lies here, and other models of the command on {}: run each by itself",
                                 argument.value, host.words()));
  }
}

/// The first folder that is named on another machine, a checkpoint or a training, or a run file that is only checked:
/// what reads one of these runs where it lies.
std::string RemoteCommand::placeOfFolder() const {
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty() || argument.output || m_parsed.command == "open") continue;
    if (m_parsed.command == "check") return url;
    if (!reads(m_parsed.command) || url.ends_with(".h5")) continue;  // no folder, and the way there and back is long
    if (agent::file_facts(url).kind == "folder") return url;
  }
  return "";
}

int RemoteCommand::run(const CommandContext& context, const std::function<int(const std::vector<std::string>&)>& run) {
  return m_place.empty() ? runHere(context, run) : runThere(context);
}

/// Puts another path in the place of one: where it is a word, or stands behind an option's name.
void RemoteCommand::replace(const std::string& path, const std::string& with) {
  for (std::size_t n = 1; n < m_arguments.size(); ++n) {
    std::string& word = m_arguments[n];
    if (word == path) {
      word = with;
    } else if (word.starts_with('-') && word.ends_with(path)) {
      word = word.substr(0, word.size() - path.size()) + with;
    }
  }
}

int RemoteCommand::runHere(const CommandContext& context,
                           const std::function<int(const std::vector<std::string>&)>& run) {
  std::vector<std::pair<std::filesystem::path, agent::RemotePath>> outputs;
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty() || (!argument.output && reads(m_parsed.command))) continue;
    if (argument.output) {
      const agent::RemotePath there = agent::parse_remote_path(url);
      outputs.emplace_back(agent::make_temporary_folder() / nameOf(there.path), there);
      agent::show_copy_as(outputs.back().first.string(), url);
      replace(argument.value, outputs.back().first.string());
      continue;
    }
    const agent::FileFacts facts = agent::file_facts(url);
    if (facts.kind == "folder") {
      throw UsageError(
          fmt::format("{}: is a folder, and only files are copied from another machine: name a model there "
                      "too, so that the command runs there, or copy the folder to this machine",
                      url));
    }
    if (facts.holds == "runs") {
      throw UsageError(fmt::format("{}: run files on another machine are read by {}: {} reads one that is here", url,
                                   fmt::join(kReadFromAfar, ", "), m_parsed.command));
    }
    const std::filesystem::path copy = agent::file_here(url, context.job());
    if (copy.empty()) return kInterrupted;
    context.console.endProgress();
    replace(argument.value, copy.string());
  }
  const int code = run(m_arguments);
  if (code != kDone) return code;
  for (const auto& [here, there] : outputs) {
    try {
      if (!agent::send_file(here, there, m_parsed.force, context.job())) return kInterrupted;
    } catch (const Error& error) {
      agent::leave_temporary_folder(here.parent_path());
      const std::string line = error.what();
      agent::show_copy_as(here.string(), here.string());  // where it is now
      throw Error(
          fmt::format("{}; what was made is kept on this machine, in {}: copy it from there", line, here.string()));
    }
  }
  return code;
}

int RemoteCommand::runThere(const CommandContext& context) {
  const agent::RemoteHost host = agent::parse_remote_path(m_place).host;
  const std::shared_ptr<agent::Remote> remote = agent::Remote::at(host);
  std::vector<std::pair<agent::RemotePath, std::string>> outputs;
  agent::ShownNames names;
  agent::Message request = agent::request_for("command");
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    const std::string name = argument.value.substr(0, argument.value.size() - url.size());  // NAME= of a model
    if (argument.value == "-") {
      if (argument.output || request.header.contains("input")) continue;
      const std::string input = read_input_bytes("-", "text", agent::kMostParts);
      agent::put(request, "input", std::vector<std::uint8_t>(input.begin(), input.end()));
      continue;
    }
    if (!url.empty() && agent::parse_remote_path(url).host == host) {
      const std::string path = agent::parse_remote_path(url).path;
      names.add(path, url);
      replace(argument.value, name + path);
      if (argument.output && m_parsed.command == "eval") {
        context.interrupt.say(fmt::format(
            "interrupted: if work was begun, it is in {}.partial, and the same command goes on from it", url));
      }
      continue;
    }
    if (url.empty() && !argument.output && std::filesystem::is_directory(argument.value)) {
      throw UsageError(
          fmt::format("{}: is a folder, and only files are sent to {}, where the command runs: copy the "
                      "folder there and name it as ssh://{}/PATH",
                      argument.value, host.words(), host.words()));
    }
    const agent::RemotePath there = placeFor(nameOf(url.empty() ? argument.value : url), *remote, context.job());
    if (there.path.empty()) return kInterrupted;
    if (argument.output) {
      if (!url.empty()) throw UsageError(fmt::format("{}: is neither here nor where the model runs: choose one", url));
      requireWritable(argument.value, m_parsed.force);
      outputs.emplace_back(there, argument.value);
    } else {
      const std::filesystem::path here = agent::file_here(argument.value, context.job());
      if (here.empty() || !agent::send_file(here, there, true, context.job())) return kInterrupted;
    }
    names.add(there.path, argument.value);
    replace(argument.value, there.path);
  }
  agent::put(request, "arguments", std::vector<std::string>(m_arguments.begin() + 1, m_arguments.end()));
  const auto show = [&](const agent::Message& message) {
    if (message.header.contains("note")) {
      const std::string note = names.in_place(agent::take<std::string>(message, "note"));
      // With -q it says nothing but errors.
      m_parsed.verbosity == Verbosity::quiet ? context.console.error(note) : context.console.note(note);
    } else if (const auto bytes = message.header.find(agent::kOutputBytes); bytes != message.header.end()) {
      for (const auto& output : outputs) requireRoom(output.second, m_parsed.force, *bytes);
    } else if (message.header.contains("output") && !message.parts.empty()) {
      context.console.endProgress();
      Console::write(names.in_place(message.parts.front().text()));
    }
  };
  const auto answer = remote->ask(request, context.job(), agent::Again::never, show);
  context.console.endProgress();
  if (!answer) return kInterrupted;
  const int code = agent::take<int>(*answer, "answer");
  if (code != kDone) return code;
  for (const auto& [there, here] : outputs) {
    try {
      if (!agent::fetch_file(there, here, m_parsed.force, context.job())) return kInterrupted;
    } catch (const agent::ConnectionLost&) {
      throw;
    } catch (const Error& error) {
      context.console.endProgress();
      keepThere(there, here, error, context.job());
    }
    context.console.endProgress();
  }
  return code;
}

}  // namespace foxscope::cli
