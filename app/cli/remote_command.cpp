#include "app/cli/remote_command.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/held_output.h"
#include "app/cli/interrupt.h"
#include "app/cli/output.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/shown_names.h"
#include "backend/agent/taken.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/distributed_config.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/sha256.h"
#include "backend/model/weights/hub_cache.h"
#include "backend/text/file_bytes.h"

namespace foxscope::cli {

/// An output on another machine, while it is here.
struct SentOutput {
  std::filesystem::path here;
  agent::RemotePath there;
  std::string folder;   ///< what it lies in, for people
  bool force = false;   ///< a file there is overwritten
  std::string made_by;  ///< as workOf the command, which takes it up where it was not sent; empty: no command does
};

namespace {

/// Commands whose run files and evaluations are read from afar.
constexpr std::array kReadFromAfar = {"info", "map", "heads", "compare", "figure", "page", "open"};

/// Commands that would end with a connection, and must not.
constexpr std::array kOnOwnFiles = {"train", "serve"};

/// @throws UsageError for a command of kOnOwnFiles
[[noreturn]] void refuse(const std::string& command, const std::string& url, const agent::RemoteHost& host) {
  if (command == "serve") {
    throw UsageError(
        fmt::format("{}: serve answers where its model is: log in to {} and start it there", url, host.words()));
  }
  throw UsageError(
      fmt::format("{0}: a training works on files of its own machine, and outlives connections: log in to "
                  "{1} and start it there; foxscope ssh://{1}/OUT shows it here",
                  url, host.words()));
}

/// "ssh://..." of [NAME=]ssh://...; empty for what is here.
std::string urlIn(const std::string& value) {
  const std::size_t place = value.find("ssh://");
  if (place == 0) return value;
  const bool named = place != std::string::npos && value[place - 1] == '=' && value.find('/') > place;
  return named ? value.substr(place) : "";
}

/// The path of an argument, which may stand behind NAME=.
std::string pathIn(const PathArgument& argument) {
  const std::string& value = argument.value;
  if (const std::string url = urlIn(value); !url.empty()) return url;
  const std::size_t sign = argument.named ? value.find('=') : std::string::npos;
  return sign < value.find('/') ? value.substr(sign + 1) : value;
}

/// Makes a folder there for one file, so that the file keeps its name.
/// @returns the file's path; an empty one if the job was stopped
agent::RemotePath placeFor(const std::string& name, agent::Remote& remote, const Job& job) {
  const auto answer = remote.ask(agent::request_for("folder"), job, agent::Again::never);
  if (!answer) return {};
  return {remote.host(), agent::taken_from<std::string>(remote.host(), *answer, "answer") + "/" + name};
}

std::string nameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// Removes a file that was left there. Where that cannot be, it stays: what was wanted is done.
void forgetThere(const agent::RemotePath& made, const Job& job) {
  try {
    agent::forget_run(made, job);
  } catch (const Error& error) {
    log_line(LogCategory::file, [&] { return fmt::format("{}: was not removed: {}", made.url(), error.what()); });
  }
}

/// A line about a file that is on another machine, and could not be brought here.
std::string keptThere(std::string_view why, const agent::RemotePath& made) {
  return fmt::format("{}; what was made is kept in {}: copy it from there", why, made.url());
}

/// Moves what a command has made there to the folder that keeps runs until they are saved; where that cannot be, it
/// stays in its temporary folder.
/// @param stays  it was left there
/// @param why    it cannot be here
[[noreturn]] void keepThere(const agent::RemotePath& made, bool stays, const std::string& here, const Error& why,
                            const Job& job) {
  const std::filesystem::path name = std::filesystem::path(here).filename();
  std::optional<agent::RemotePath> kept;
  try {
    kept = agent::place_for_run(made.host, name.stem().string(), job, name.extension().string());
    if (kept && !agent::copy_there(made, kept->path, /*overwrite=*/false, job)) kept.reset();
  } catch (const Error&) {
    kept.reset();
  }
  if (kept) {
    forgetThere(made, job);
    throw Error(
        fmt::format("{}; what was made is kept in {} until nobody has read it for seven days: copy it from there",
                    why.what(), kept->url()));
  }
  throw Error(stays ? keptThere(why.what(), made) : why.what());
}

/// Sends a file to where a command runs. An error there is said of the temporary folder that has no room for it.
/// @returns false if the job was stopped
bool sendInput(const std::filesystem::path& here, const std::string& shown, const agent::RemotePath& there,
               const Job& job) {
  try {
    return agent::send_file(here, there, true, job);
  } catch (const agent::AskingStopped&) {
    throw;
  } catch (const agent::ConnectionLost&) {
    throw;
  } catch (const Error& error) {
    agent::ShownNames names;
    names.add(there.url(),
              fmt::format("{} (copied to the temporary folder of {}, TMPDIR there)", shown, there.host.words()));
    throw Error(names.in_place(error.what()));
  }
}

/// Words that change nothing in what a command makes and prints.
constexpr std::array kWithoutEffect = {"-v", "--verbose", "--force"};

/// The identity of a file or of all files of a folder, which is another one once they have changed; empty where there
/// is none.
std::string identityOf(const PathArgument& argument) {
  const std::string path = pathIn(argument);
  try {
    if (agent::is_remote(path)) return agent::file_facts(path).identity;
    const std::filesystem::path here = argument.model ? resolve_checkpoint_folder(path) : std::filesystem::path(path);
    if (!std::filesystem::is_directory(here)) return agent::file_identity(here.string());
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(here)) {
      if (entry.is_regular_file())
        files.insert(entry.path().string() + ' ' + agent::file_identity(entry.path().string()));
    }
    return sha256(fmt::format("{}", fmt::join(files, "\n")));
  } catch (const agent::ConnectionLost&) {
    throw;
  } catch (const std::exception&) {
    return "";  // the command itself says what is wrong with it
  }
}

/// SHA-256 of what a command's work depends on: its words, this program and its inputs. Empty where one of these is not
/// known.
std::string workOf(const ParsedCommand& parsed) {
  std::string all = FOXSCOPE_VERSION;
  for (const std::string& word : parsed.words) {
    if (std::ranges::find(kWithoutEffect, word) == kWithoutEffect.end()) all += '\0' + word;
  }
  for (const PathArgument& argument : parsed.paths) {
    if (argument.output) continue;
    const std::string identity = identityOf(argument);
    if (identity.empty()) return "";
    all += '\0' + identity;
  }
  return sha256(all);
}

/// The place here in which an output is made. An evaluation goes on from the file beside its output, and what could not
/// be sent is taken up: its place is the same for the same URL.
SentOutput placeHere(const std::string& url, const ParsedCommand& parsed, bool force) {
  const agent::RemotePath there = agent::parse_remote_path(url);
  const std::string name = nameOf(there.path);
  if (parsed.command != "eval") {
    return {agent::make_temporary_folder() / name, there, "the temporary folder of this machine, TMPDIR", force, ""};
  }
  constexpr std::size_t kLetters = 16;
  const std::filesystem::path folder = agent::make_cache_folder("outputs") / sha256(there.url()).substr(0, kLetters);
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  return {folder / name, there, fmt::format("{} on this machine, XDG_CACHE_HOME", folder.string()), force,
          workOf(parsed)};
}

/// The file beside an output that says, until it is sent, which work it is of and what its command printed.
std::filesystem::path noteBeside(const SentOutput& output) { return output.here.string() + ".unsent"; }

/// Writes it. Where that cannot be, no command takes the output up.
void noteUnsent(SentOutput& output, const std::string& printed) try {
  if (output.made_by.empty()) return;
  const nlohmann::json note = {
      {"made_by", output.made_by}, {"output", agent::file_identity(output.here.string())}, {"printed", printed}};
  AtomicFile file(noteBeside(output), /*overwrite=*/true);
  const std::string text = note.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  file.write(text.data(), text.size());
  file.commit();
} catch (const Error& error) {
  output.made_by.clear();
  log_line(LogCategory::file, [&] { return fmt::format("no note beside the output: {}", error.what()); });
}

/// The lines that the same command printed when it made an output that was not sent.
/// @returns nothing where there is none
/// @throws Error for an output of other work, unless it is to be made anew
std::optional<std::string> printedOfUnsent(const SentOutput& output) {
  std::error_code failed;
  if (!std::filesystem::exists(output.here, failed)) return std::nullopt;
  std::ifstream file(noteBeside(output));
  const auto note = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* key, const std::string& value) {
    return note.is_object() && note.value(key, nlohmann::json()) == value;
  };
  if (!output.made_by.empty() && is("made_by", output.made_by) &&
      is("output", agent::file_identity(output.here.string()))) {
    return note.value("printed", nlohmann::json()).is_string() ? note["printed"].get<std::string>() : "";
  }
  if (output.force) return std::nullopt;
  throw Error(
      fmt::format("{}: was made for {} by another command, or of files that have changed, and was not sent: give that "
                  "command again, or copy it from there and remove it, or use --force to make it anew",
                  output.here.string(), output.there.url()));
}

/// Removes an output that was sent, and its folder unless something else is in it.
void removeSent(const SentOutput& output) {
  std::error_code failed;
  std::filesystem::remove(output.here, failed);
  std::filesystem::remove(noteBeside(output), failed);
  std::filesystem::remove(output.here.parent_path(), failed);
}

/// Refuses a run whose output has no room here.
void requireRoom(const std::string& output, bool force, const nlohmann::json& bytes) {
  if (bytes.is_number_unsigned()) AtomicFile(output, force).require_space(bytes.get<std::uint64_t>());
}

/// Writes what was kept back. What it names was put in the place of the copies' names before.
void writeReleased() {
  if (const std::string text = HeldOutput::release(); !text.empty()) Console::write(text);
}

bool reads(const std::string& command) { return std::ranges::find(kReadFromAfar, command) != kReadFromAfar.end(); }

}  // namespace

RemoteCommand::RemoteCommand(const ParsedCommand& parsed) : m_words(parsed.words), m_parsed(parsed) {
  agent::RemoteHost host;
  for (const PathArgument& argument : parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty()) continue;
    const agent::RemotePath path = agent::parse_remote_path(url);
    if (std::ranges::find(kOnOwnFiles, parsed.command) != kOnOwnFiles.end()) refuse(parsed.command, url, path.host);
    m_needed = m_needed || argument.output || !reads(parsed.command);
    if (!argument.model) continue;
    if (!m_place.empty() && path.host != host) {
      throw UsageError(fmt::format("{}: models on two machines, {} and {}, do not run together: run each by itself",
                                   url, host.words(), path.host.words()));
    }
    m_place = url;
    host = path.host;
  }
  requireOneProcess();
  const bool models = !m_place.empty();
  if (!models) m_place = placeOfFolder();
  m_needed = m_needed || !m_place.empty();
  for (const PathArgument& argument : parsed.paths) {
    if (!models || !argument.model || !urlIn(argument.value).empty()) continue;
    throw UsageError(fmt::format("{}: lies here, and other models of the command on {}: run each by itself",
                                 argument.value, host.words()));
  }
}

/// Each of several processes would send or fetch the files, and the others' machines do not see them.
void RemoteCommand::requireOneProcess() const {
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty() || !distributed_config()) continue;
    throw UsageError(
        fmt::format("{}: several processes work together on files of their own machine only: log in there and start "
                    "them there",
                    url));
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
  for (std::size_t n = 1; n < m_words.size(); ++n) {
    std::string& word = m_words[n];
    if (word == path) {
      word = with;
    } else if (word.starts_with('-') && word.ends_with(path)) {
      word = word.substr(0, word.size() - path.size()) + with;
    }
  }
}

int RemoteCommand::runHere(const CommandContext& context,
                           const std::function<int(const std::vector<std::string>&)>& run) {
  std::vector<SentOutput> outputs;
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty() || !argument.output) continue;
    if (!agent::require_writable_there(agent::parse_remote_path(url), argument.force, context.job())) {
      return kInterrupted;
    }
    const SentOutput& output = outputs.emplace_back(placeHere(url, m_parsed, argument.force));
    // An evaluation has one output.
    if (const std::optional<std::string> printed = printedOfUnsent(output)) {
      return sendUnsent(output, *printed, context);
    }
    const std::string here = output.here.string();
    agent::show_copy_as(here, url);
    agent::show_copy_as(here + ".partial", here + ".partial");  // is here only
    replace(argument.value, here);
  }
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    if (url.empty() || argument.output || reads(m_parsed.command)) continue;
    const agent::FileFacts facts = agent::file_facts(url);
    if (facts.kind == "folder") {
      const bool runs = std::ranges::any_of(m_parsed.paths, &PathArgument::model);
      throw UsageError(fmt::format(
          "{}: is a folder, and only files are copied from another machine: {}copy the folder to this machine", url,
          runs ? "name a model there too, so that the command runs there, or " : ""));
    }
    if (facts.holds == "runs") {
      throw UsageError(
          fmt::format("{}: run files on another machine are read by {} and check: {} reads one that is here: copy the "
                      "file to this machine, or log in to {} and start {} there",
                      url, fmt::join(kReadFromAfar, ", "), m_parsed.command, agent::parse_remote_path(url).host.words(),
                      m_parsed.command));
    }
    const std::filesystem::path copy = agent::file_here(url, context.job());
    if (copy.empty()) return kInterrupted;
    context.console.endProgress();
    replace(argument.value, copy.string());
  }
  if (outputs.empty()) return run(m_words);
  // No file is written there before it is sent.
  const HeldOutput held;
  const int code = runForSending(outputs, run);
  const std::string printed = HeldOutput::release();
  for (SentOutput& output : outputs) {
    if (code != kDone) break;
    noteUnsent(output, printed);
    if (!sendOutput(output, context)) return kInterrupted;
  }
  if (!printed.empty()) Console::write(printed);
  return code;
}

/// Sends what the same command has made before.
int RemoteCommand::sendUnsent(const SentOutput& output, const std::string& printed, const CommandContext& context) {
  context.console.note(fmt::format("{}: was made before, and is sent now", output.there.url()));
  if (!sendOutput(output, context)) return kInterrupted;
  if (!printed.empty()) Console::write(printed);
  return kDone;
}

/// Runs the command. An error says on which machine an output had no room.
int RemoteCommand::runForSending(const std::vector<SentOutput>& outputs,
                                 const std::function<int(const std::vector<std::string>&)>& run) {
  try {
    return run(m_words);
  } catch (const agent::AskingStopped&) {
    throw;
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    writeReleased();
    // The disk that is full, or the limit, is this machine's.
    const std::string line = error.what();
    for (const SentOutput& output : outputs) {
      const std::string start = output.here.string() + ": ";
      if (!line.starts_with(start)) continue;
      throw Error(fmt::format("{} (made in {}): {}", output.there.url(), output.folder, line.substr(start.size())));
    }
    throw;
  }
}

/// @returns false if the job was stopped
bool RemoteCommand::sendOutput(const SentOutput& output, const CommandContext& context) {
  const std::string here = output.here.string();
  const std::string kept =
      fmt::format("what was made is kept on this machine, in {}: {}", here,
                  output.made_by.empty() ? "copy it from there" : "the same command sends it, for seven days");
  // From here on nothing takes it away, whatever ends this process.
  agent::leave_temporary_folder(output.here.parent_path());
  agent::show_copy_as(here, here);
  context.interrupt.say("interrupted while it was sent; " + kept);
  try {
    if (!agent::send_file(output.here, output.there, output.force, context.job())) return false;
  } catch (const agent::AskingStopped&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("{}; {}", error.what(), kept));
  }
  context.console.endProgress();
  context.interrupt.say(std::string(kInterruptedMessage));
  removeSent(output);
  return true;
}

int RemoteCommand::runThere(const CommandContext& context) {
  const agent::RemoteHost host = agent::parse_remote_path(m_place).host;
  const std::shared_ptr<agent::Remote> remote = agent::Remote::at(host);
  std::vector<std::pair<agent::RemotePath, std::string>> outputs;
  agent::ShownNames names;  // in what it prints
  agent::ShownNames notes;  // in errors: a full disk is that of the other machine
  agent::Message request = agent::request_for("command");
  for (const PathArgument& argument : m_parsed.paths) {
    const std::string url = urlIn(argument.value);
    const std::string path = pathIn(argument);
    const std::string name = argument.value.substr(0, argument.value.size() - path.size());  // NAME=
    if (argument.value == "-") {
      if (argument.output || request.header.contains("input")) continue;
      const std::string input = read_input_bytes("-", "text", agent::kMostParts);
      agent::put(request, "input", std::vector<std::uint8_t>(input.begin(), input.end()));
      continue;
    }
    if (!url.empty() && agent::parse_remote_path(url).host == host) {
      const std::string there = agent::path_from_root(agent::parse_remote_path(url));
      names.add(there, url);
      notes.add(there, url);
      replace(argument.value, name + there);
      if (argument.output && m_parsed.command == "eval") {
        context.interrupt.say(fmt::format(
            "interrupted: if work was begun, it is in {}.partial, and the same command goes on from it", url));
      }
      continue;
    }
    const auto isFolder = [&] {
      return url.empty() ? std::filesystem::is_directory(path) : agent::file_facts(url).kind == "folder";
    };
    if (!argument.output && isFolder()) {
      throw UsageError(
          fmt::format("{}: is a folder, and only files are sent to {}, where the command runs: copy the "
                      "folder there and name it as ssh://{}/PATH",
                      path, host.words(), host.words()));
    }
    const agent::RemotePath there =
        placeFor(nameOf(url.empty() ? path : agent::parse_remote_path(url).path), *remote, context.job());
    if (there.path.empty()) return kInterrupted;
    if (argument.output) {
      if (!url.empty()) throw UsageError(fmt::format("{}: is neither here nor where the model runs: choose one", url));
      requireWritable(argument.value, m_parsed.force);
      outputs.emplace_back(there, argument.value);
    } else {
      const std::filesystem::path here = agent::file_here(path, context.job());
      if (here.empty() || !sendInput(here, path, there, context.job())) return kInterrupted;
    }
    names.add(there.path, path);
    notes.add(there.path, argument.output ? fmt::format("{} (made in the temporary folder of {}, TMPDIR there)",
                                                        argument.value, host.words())
                                          : path);
    replace(argument.value, name + there.path);
  }
  agent::put(request, "arguments", m_words);
  const auto show = [&](const agent::Message& message) {
    if (message.header.contains("note")) {
      const std::string note = notes.in_place(agent::taken_from<std::string>(host, message, "note"));
      // With -q it says nothing but errors.
      m_parsed.verbosity == Verbosity::quiet ? context.console.error(note) : context.console.note(note);
    } else if (const auto bytes = message.header.find(agent::kOutputBytes); bytes != message.header.end()) {
      for (const auto& output : outputs) requireRoom(output.second, m_parsed.force, *bytes);
    } else if (message.header.contains("output") && !message.parts.empty()) {
      context.console.endProgress();
      Console::write(names.in_place(message.parts.front().text()));
    }
  };
  std::vector<std::string> leave;
  for (const auto& output : outputs) leave.push_back(output.first.path);
  agent::put(request, "leave", leave);
  // No file is written here before it is fetched.
  std::optional<HeldOutput> held;
  if (!outputs.empty()) held.emplace();
  const auto answer = [&] {
    try {
      return remote->ask(request, context.job(), agent::Again::never, show);
    } catch (const agent::ConnectionCut& error) {
      // A command's output comes when its work is done; with -q there is none.
      const bool ending = m_parsed.verbosity == Verbosity::quiet || !HeldOutput::release().empty();
      if (outputs.empty() || !ending) throw;
      throw Error(fmt::format("{}, unless what was made is in {}", error.what(), outputs.front().first.url()));
    }
  }();
  context.console.endProgress();
  if (!answer) return kInterrupted;
  const int code = agent::taken_from<int>(host, *answer, "answer");
  if (code == kInterrupted) {
    throw Error(fmt::format("{}: {} was ended there: start it again", host.words(), m_parsed.command));
  }
  const bool left = answer->header.contains("left") && agent::taken_from<bool>(host, *answer, "left");
  for (const auto& [there, here] : outputs) {
    if (code == kDone && !fetchOutput(there, left, here, context)) return kInterrupted;
  }
  writeReleased();
  return code;
}

/// @param stays  it does not go with the connection, or with this process
/// @returns false if the job was stopped
bool RemoteCommand::fetchOutput(const agent::RemotePath& there, bool stays, const std::string& here,
                                const CommandContext& context) {
  if (stays) context.interrupt.say(keptThere("interrupted while it was fetched", there));
  try {
    if (!agent::fetch_file(there, here, m_parsed.force, context.job())) return false;
  } catch (const agent::AskingStopped&) {
    throw;
  } catch (const agent::ConnectionLost& error) {
    if (!stays) throw;
    throw Error(keptThere(error.what(), there));
  } catch (const Error& error) {
    context.console.endProgress();
    keepThere(there, stays, here, error, context.job());
  }
  context.console.endProgress();
  context.interrupt.say(std::string(kInterruptedMessage));
  if (stays) forgetThere(there, context.job());
  return true;
}

}  // namespace foxscope::cli
