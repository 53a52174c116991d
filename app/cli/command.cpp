#include "app/cli/command.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <regex>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/choices.h"
#include "app/cli/completion.h"
#include "app/cli/interrupt.h"
#include "app/cli/manual.h"
#include "app/cli/model_names.h"
#include "app/cli/output.h"
#include "app/cli/parse_error.h"
#include "app/cli/remote_command.h"
#include "backend/agent/command_answers.h"
#include "backend/agent/late_check.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_path.h"
#include "backend/agent/temporary_folders.h"
#include "backend/base/atomic_file.h"
#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/base/nearest_name.h"
#include "backend/text/tokenizer.h"

namespace foxscope::cli {
namespace {

// A file that is opened while 0, 1 or 2 is free would take its number, and messages would go into it.
void occupyStandardStreams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
    }
  }
}

// Memory that is freed is used again: the system takes longer to take pages back and to give new ones than it takes to
// fill them.
void keepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

// A command that an agent started ends with it, however the agent ends.
void endWithAgent() {
  if (std::getenv(agent::kUnderAgent) == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
}

std::filesystem::path programFolder() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path(".") : program.parent_path();
}

std::string flawIn(const std::exception& error) {
  const std::string_view text = error.what();
  return fmt::format("{}: this is a flaw of the program, please report it with the command",
                     text.substr(0, text.find('\n')));
}

/// Help that shows of an option's names those of today.
class HelpText : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_option_name(const CLI::Option* option, bool positional) const override {
    return positional ? option->get_name(true, false) : fmt::format("{}", fmt::join(shownNames(*option), ","));
  }
};

void describeProgram(CLI::App& program, ParsedCommand& parsed) {
  const auto help = std::make_shared<HelpText>();
  help->column_width(34);
  program.formatter(help);
  program.name("foxscope");
  program.set_help_flag("-h,--help", "Print this help; `foxscope help COMMAND` prints the help of a command");
  program.set_version_flag("-V,--version", "foxscope " FOXSCOPE_VERSION, "Print the version");
  program.footer(
      "Examples:\n"
      "  foxscope run --model resources/models/fox-pro-12m --text chapter.txt -o run.h5\n"
      "  foxscope heads run.h5\n"
      "  foxscope map run.h5 --quantity attention -o attention.png\n"
      "\n"
      "Layers, heads and positions count from 0. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
  addOpenCommand(program, parsed);
  addRunCommand(program, parsed);
  addInfoCommand(program, parsed);
  addCheckCommand(program, parsed);
  addImportCommand(program, parsed);
  addMapCommand(program, parsed);
  addHeadsCommand(program, parsed);
  addCompareCommand(program, parsed);
  addEvalCommand(program, parsed);
  addFigureCommand(program, parsed);
  addPageCommand(program, parsed);
  addGenerateCommand(program, parsed);
  addServeCommand(program, parsed);
  addTrainCommand(program, parsed);
  addBenchCommand(program, parsed);
  addAgentCommand(program, parsed);
  // The word of a second command is a file's name.
  program.require_subcommand(0, 1);
  // Told by --help; `commandFirst` answers it.
  program.add_subcommand("help", "Print the help of a command: help COMMAND")->prefix_command();
}

/// Commands of that name, in full: "foxscope run", or else those of all groups, "foxscope figure loss".
std::vector<std::string> commandsCalled(const CLI::App& program, const std::string& word) {
  std::vector<std::string> found;
  for (const CLI::App* command : commandsOf(program)) {
    if (command->get_name() == word) return {"foxscope " + word};
    for (const CLI::App* inner : commandsOf(*command)) {
      if (inner->get_name() == word) found.push_back(fmt::format("foxscope {} {}", command->get_name(), word));
    }
  }
  return found;
}

/// "eval run" and "figure map", where the word names a command elsewhere, which the parser would take.
/// @throws UsageError with the nearest of the group, and with where the word belongs
void checkGroup(const CLI::App& program, const CLI::App& group, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* inner : commandsOf(group)) names.push_back(inner->get_name());
  if (names.empty() || std::ranges::find(names, word) != names.end()) return;
  const std::vector<std::string> elsewhere = commandsCalled(program, word);
  if (elsewhere.empty()) {
    // A kind of figure is told by `figure` itself, with all that there are.
    const std::string meant = word.starts_with('-') || group.get_name() == "figure" ? "" : did_you_mean(word, names);
    if (meant.empty()) return;
    throw UsageError(fmt::format("{} {}: there is no such command: {}see foxscope {} --help", group.get_name(), word,
                                 meant, group.get_name()));
  }
  throw UsageError(fmt::format("{} {}: there is no such command: {}{} is another one: see foxscope {} --help",
                               group.get_name(), word, did_you_mean(word, names), fmt::join(elsewhere, " or "),
                               group.get_name()));
}

/// @throws UsageError for a word like --versio: what the window is given knows nothing of it, the program does; and for
///         an option in front of its command
void checkOwnOption(const CLI::App& program, const std::string& word, const std::string& next) {
  const std::string name = word.substr(0, word.find('='));
  if (!name.starts_with("--") || name.size() < 3) return;
  for (const CLI::App* command : commandsOf(program)) {
    if (command->get_name() == "open" && command->get_option_no_throw(name) != nullptr) return;
  }
  for (const CLI::App* command : commandsOf(program)) {
    if (command->get_name() != next) continue;
    throw UsageError(fmt::format("{}: options stand behind the command: see foxscope {} --help", name, next));
  }
  const std::vector<std::string> own = {"--help", "--version"};
  const std::string meant = did_you_mean(name, own);
  if (!meant.empty()) throw UsageError(fmt::format("{}: there is no such option: {}see foxscope --help", name, meant));
}

/// `figure spec --write SPEC.json KIND ...` is `figure KIND ... --write-spec SPEC.json`: KIND takes its own options.
void writeSpecOf(std::vector<std::string>& words) {
  constexpr std::string_view kWrite = "--write";
  if (words.size() < 3 || words[0] != "figure" || words[1] != "spec") return;
  const auto write = std::find_if(words.begin(), words.end(), [&](const std::string& word) {
    return word == kWrite || word.starts_with(std::string(kWrite) + '=');
  });
  if (write == words.end()) return;
  if (*write == kWrite && write + 1 == words.end()) {
    throw UsageError("figure spec --write: name the file behind it, as in figure spec --write maps.json maps run.h5");
  }
  const bool joined = *write != kWrite;
  const std::string spec = joined ? write->substr(kWrite.size() + 1) : *(write + 1);
  words.erase(write, write + (joined ? 1 : 2));
  words.erase(words.begin() + 1);
  if (words.size() < 2 || words[1].starts_with('-') || words[1] == "spec") {
    throw UsageError(
        fmt::format("figure spec --write {0}: name a kind of figure, as in figure spec --write {0} maps run.h5", spec));
  }
  words.push_back("--write-spec=" + spec);
}

/// -q and -v before the command go behind it, since they are the command's: -v figure maps FILE is figure maps -v FILE.
void flagsBehindCommand(const CLI::App& program, std::vector<std::string>& words) {
  const auto isFlag = [](const std::string& word) {
    const bool letters = word.size() > 1 && word.find_first_not_of("qv", 1) == std::string::npos;
    return word == "--quiet" || word == "--verbose" || (word.starts_with('-') && letters);
  };
  const auto first = std::ranges::find_if_not(words, isFlag);
  const CLI::App* command = &program;
  auto behind = first;
  while (behind != words.end()) {
    const auto inner = commandsOf(*command);
    const auto named = std::ranges::find(inner, *behind, [](const CLI::App* app) { return app->get_name(); });
    if (named == inner.end()) break;
    command = *named;
    ++behind;
  }
  std::rotate(words.begin(), first, behind);
}

/// Arguments after the program's name, the command first: paths alone, options of the window and nothing at all mean
/// `open`. A word that is neither a command nor a path is answered before the parser sees it.
std::vector<std::string> commandFirst(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto open = [&] {
    words.insert(words.begin(), "open");
    return words;
  };
  if (words.empty()) return open();
  if (words.front() == "help" && words.back() != "--help") {  // help COMMAND: COMMAND --help
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  flagsBehindCommand(program, words);
  writeSpecOf(words);
  const std::string& word = words.front();
  for (const char* own : {"-h", "--help", "-V", "--version"}) {
    if (word == own) return words;
  }
  if (word.starts_with('-')) {
    checkOwnOption(program, word, words.size() > 1 ? words[1] : "");
    return open();
  }
  const auto commands = commandsOf(program);
  const auto known = std::find_if(commands.begin(), commands.end(),
                                  [&](const CLI::App* command) { return command->get_name() == word; });
  if (known != commands.end()) {
    if (words.size() > 1) checkGroup(program, **known, words[1]);
    return words;
  }
  std::error_code failed;
  if (agent::is_remote(word) || std::filesystem::exists(word, failed)) return open();
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::vector<std::string> inGroups = commandsCalled(program, word);
  const std::string meant =
      inGroups.empty() ? did_you_mean(word, names) : fmt::format("did you mean {}? else ", fmt::join(inGroups, " or "));
  throw UsageError(fmt::format("{}: there is no such command, file or folder: {}see foxscope --help", word, meant));
}

// The type that --help shows of an option says what it takes: FILE, FILE|FOLDER, PATH, OUT, RUN.h5, [NAME=]DIR.
bool takesPath(const CLI::Option& option) {
  static const std::regex kPath(R"(FILE|FOLDER|DIR|PATH|^OUT$|[A-Z]\.[a-z0-9]+)");
  return std::regex_search(option.get_type_name(), kPath);
}

std::string valueWithoutFolder(const CLI::Option& option, const std::string& value) {
  const std::string type = option.get_type_name();
  if (type.find("DIR") != std::string::npos) return modelWithoutFolder(value);
  if (type.starts_with("[NAME=]")) {
    const NamedModel file = parseNamedFile(value);
    if (!file.name.empty()) return file.name + '=' + agent::name_without_folder(file.path);
  }
  const std::string name = agent::name_without_folder(value);
  return name != value && name.starts_with('-') ? "./" + name : name;
}

// Words that hold a path, as they are written without folders: the path alone, or behind its option's name.
std::map<std::string, std::string> pathWords(const std::vector<const CLI::App*>& commands) {
  std::map<std::string, std::string> words;
  for (const CLI::App* command : commands) {
    for (const CLI::Option* option : command->get_options()) {
      if (!takesPath(*option)) continue;
      for (const std::string& value : option->results()) {
        const std::string shorter = valueWithoutFolder(*option, value);
        words[value] = shorter;
        for (const std::string& name : option->get_lnames())
          words[fmt::format("--{}={}", name, value)] = fmt::format("--{}={}", name, shorter);
        for (const std::string& name : option->get_snames())
          words[fmt::format("-{}{}", name, value)] = fmt::format("-{}{}", name, shorter);
      }
    }
  }
  return words;
}

// Whether the next word is a value that is no path, as after --title.
bool announcesText(const std::vector<const CLI::App*>& commands, const std::string& word) {
  return std::ranges::any_of(commands, [&](const CLI::App* command) {
    const CLI::Option* option = word.starts_with('-') ? command->get_option_no_throw(word) : nullptr;
    return option != nullptr && option->get_items_expected_min() > 0 && !takesPath(*option);
  });
}

// The commands tell an installation what it asks for: `--manual [FOLDER]`, a page or a page a command into a folder,
// and `--completion [SHELL]`. @returns whether it was one of them
bool describedItself(const CLI::App& program, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments.size() > 3) return false;
  const std::string& argument = arguments.back();
  const bool alone = arguments.size() == 2;
  if (arguments[1] == "--completion") {
    Console::write(completionOf(program, alone ? "bash" : argument));
    return true;
  }
  if (arguments[1] != "--manual") return false;
  for (const ManualPage& page : manualPages(program, FOXSCOPE_VERSION)) {
    if (alone) {
      Console::write(page.text);
      return true;
    }
    writeOutput((std::filesystem::path(argument) / page.file).string(), true, page.text);
  }
  return true;
}

// A word as bash and zsh take it. A command line stands in files, which hold UTF-8: other bytes are spelled out.
std::string shellWord(const std::string& word) {
  if (!find_invalid_utf8(word)) return quoted_command_line({&word, 1});
  std::string quoted = "$'";
  for (const char character : word) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(quoted), "\\x{:02x}", byte);
    } else {
      if (character == '\'' || character == '\\') quoted += '\\';
      quoted += character;
    }
  }
  return quoted + '\'';
}

std::string commandLineWithoutFolders(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<const CLI::App*> commands{&program};
  while (!commands.back()->get_subcommands().empty()) commands.push_back(commands.back()->get_subcommands().front());
  const auto paths = pathWords(commands);
  std::string line = "foxscope";
  for (std::size_t index = 1; index < arguments.size(); ++index) {
    const std::string& word = arguments[index];
    auto path = paths.find(word);
    // Flags of one letter may stand before an option of one letter: -qoFILE.
    std::size_t flags = 0;
    const bool letters = word.starts_with('-') && !word.starts_with("--");
    while (letters && path == paths.end() && ++flags < word.size()) path = paths.find('-' + word.substr(flags));
    const bool text = index > 1 && announcesText(commands, arguments[index - 1]);
    line += ' ';
    line += shellWord(path == paths.end() || text ? word : word.substr(0, flags) + path->second.substr(flags > 0));
  }
  return line;
}

/// The arguments of the command that name files and folders.
void listPaths(const CLI::App& program, ParsedCommand& parsed) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    if (parsed.command.empty()) parsed.command = command->get_name();
  }
  const CLI::Option* const force = command->get_option_no_throw("--force");
  parsed.force = force != nullptr && force->count() > 0;
  for (const CLI::Option* option : command->get_options()) {
    if (!takesPath(*option)) continue;
    const bool picture = option->check_lname("screenshot");  // overwrites what is there
    const bool output = picture || option->check_lname("output") || option->check_lname("write-spec");
    const bool named = option->get_type_name().starts_with("[NAME=]");
    for (const std::string& value : option->results())
      parsed.paths.push_back({value, output, option->check_lname("model"), picture || parsed.force, named});
  }
}

/// Passes words of other machines on to the console, and removes copies of their files with the command; first those
/// of commands that were killed.
class RemoteEnds {
 public:
  explicit RemoteEnds(Console& console) {
    agent::remove_left_folders();
    agent::Remote::listen([&console](std::string_view line) { console.note(line); });
  }
  ~RemoteEnds() {
    guard_files({});
    Console::guardOutput({});
    agent::Remote::close_all();
    agent::Remote::listen({});
    agent::remove_temporary_folders();
  }
  RemoteEnds(const RemoteEnds&) = delete;
  RemoteEnds& operator=(const RemoteEnds&) = delete;
};

int runCommand(const std::vector<std::string>& arguments, Console& console) {
  const RemoteEnds remote(console);
  ParsedCommand parsed;
  parseCommandLine(arguments, parsed);
  console.setVerbosity(parsed.verbosity);
  std::optional<LogReader> reader;
  if (parsed.verbosity == Verbosity::verbose) {
    reader.emplace([&console](std::string_view line) { console.detail(line); });
  }
  InterruptThread interrupt;
  const CommandContext context{console, interrupt.token(), parsed.commandLine, programFolder(), interrupt};
  const agent::AskingFor asking(interrupt.token());
  const auto requireChecked = [stop = interrupt.token()] {
    if (!agent::require_checked(stop)) throw agent::AskingStopped();
  };
  guard_files(requireChecked);
  Console::guardOutput(requireChecked);
  RemoteCommand there(parsed);
  int code = kInterrupted;
  try {
    code = !there.needed() ? parsed.action(context) : there.run(context, [&](std::vector<std::string> words) {
      words.insert(words.begin(), "foxscope");
      ParsedCommand here;
      parseCommandLine(words, here);
      return here.action(context);
    });
  } catch (const agent::AskingStopped&) {
    // A call that cannot return without a result was stopped.
  }
  console.endProgress();
  if (code == kInterrupted && !interrupt.message().empty()) console.error(interrupt.message());
  return code;
}

}  // namespace

void parseCommandLine(const std::vector<std::string>& arguments, ParsedCommand& parsed) {
  CLI::App program("Foxscope shows what each head of a Forgetting Transformer forgets, and when.");
  describeProgram(program, parsed);
  if (describedItself(program, arguments)) {
    parsed.action = [](const CommandContext&) { return static_cast<int>(kDone); };
    return;
  }
  parsed.words = commandFirst(program, arguments);
  std::vector<std::string> reversed(parsed.words.rbegin(), parsed.words.rend());
  try {
    program.parse(reversed);
    checkChoices(program);
    parsed.commandLine = commandLineWithoutFolders(program, arguments);
    listPaths(program, parsed);
  } catch (const CLI::CallForHelp&) {
    Console::write(program.help());
    parsed.action = [](const CommandContext&) { return static_cast<int>(kDone); };
  } catch (const CLI::CallForVersion& version) {
    Console::write(fmt::format("{}\n", version.what()));
    parsed.action = [](const CommandContext&) { return static_cast<int>(kDone); };
  } catch (const CLI::ParseError& error) {
    throw UsageError(parseErrorText(program, error, parsed.oneOf));
  }
  if (!parsed.action) throw UsageError("no command given: see foxscope --help");
}

int runProgram(const std::vector<std::string>& arguments) {
  keepFreedMemory();
  occupyStandardStreams();
  endWithAgent();
  Console console;
  const auto fail = [&](std::string_view message, ExitCode code) {
    console.error(message);
    return static_cast<int>(code);
  };
  try {
    return runCommand(arguments, console);
  } catch (const OutputClosed&) {
    return kDone;
  } catch (const UsageError& error) {
    return fail(error.what(), kWrongUsage);
  } catch (const Error& error) {
    return fail(error.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return fail("out of memory: cut the text with --length, or leave parts out with --keep", kFailed);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return fail(flawIn(error), kFailed);
    return fail("the system starts no more threads: end other programs, or raise `ulimit -u`", kFailed);
  } catch (const std::exception& error) {
    return fail(flawIn(error), kFailed);
  }
}

std::vector<const CLI::App*> commandsOf(const CLI::App& parent) {
  return parent.get_subcommands(static_cast<const std::function<bool(const CLI::App*)>&>(nullptr));
}

CLI::App* addSubcommand(CLI::App& program, ParsedCommand& parsed, const std::string& name,
                        const std::string& description, const std::string& examples) {
  CLI::App* command = program.add_subcommand(name, description);
  command->set_help_flag("-h,--help", "Print this help");
  command->footer("Examples:\n" + examples);
  command->add_flag_callback(
      "-q,--quiet", [&parsed] { parsed.verbosity = Verbosity::quiet; },
      "Say nothing but errors, and on standard output only the data that was asked for");
  command->add_flag_callback(
      "-v,--verbose", [&parsed] { parsed.verbosity = Verbosity::verbose; }, "Say what is being done");
  return command;
}

void requireDistinct(const std::filesystem::path& output, const std::filesystem::path& input) {
  std::error_code missing;
  if (std::filesystem::equivalent(output, input, missing)) {
    throw UsageError(fmt::format("{}: this file is being read, it cannot be the output too: choose another name for -o",
                                 output.string()));
  }
}

void requireHdf5Name(const std::filesystem::path& output) {
  const std::string ending = output.extension().string();
  for (const char* known : {"", ".h5", ".hdf5", ".hdf", ".he5", ".nxs"}) {
    if (ending == known) return;
  }
  throw UsageError(
      fmt::format("{}: what is written is HDF5: give the file the ending .h5 instead of {}", output.string(), ending));
}

void requireWritable(const std::filesystem::path& output, bool force) {
  if (!isStandardOutput(output.string())) const AtomicFile unused(output, force);
}

}  // namespace foxscope::cli
