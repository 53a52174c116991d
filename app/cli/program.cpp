#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"

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

std::filesystem::path programFolder() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path(".") : program.parent_path();
}

std::string firstLine(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

void describeProgram(CLI::App& program, Selection& selection) {
  program.get_formatter()->column_width(34);
  program.name("foxscope");
  program.set_help_flag("-h,--help", "Print this help; `foxscope COMMAND --help` prints a command's own");
  program.set_version_flag("--version", "foxscope " FOXSCOPE_VERSION, "Print the version");
  program.footer(
      "Examples:\n"
      "  foxscope run --model resources/models/fox-pro-12m --text chapter.txt -o run.h5\n"
      "  foxscope heads run.h5\n"
      "  foxscope map run.h5 --layer 2 --head 1 --quantity attention -o attention.png\n"
      "\n"
      "Layers, heads and positions count from 0. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
  addOpenCommand(program, selection);
  addRunCommand(program, selection);
  addInfoCommand(program, selection);
  addMapCommand(program, selection);
  addHeadsCommand(program, selection);
  addEvalCommand(program, selection);
  addFigureCommand(program, selection);
  addGenerateCommand(program, selection);
  addBenchCommand(program, selection);
}

// The names of the chosen command and of those above it: "foxscope run", "foxscope eval loss".
std::string helpfulName(const CLI::App& program) {
  std::string name = "foxscope";
  for (auto chosen = program.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    name += ' ' + chosen.front()->get_name();
  }
  return name;
}

/// Arguments after the program's name, the command first: paths alone, options of the window and nothing at all mean
/// `open`. What is neither a command nor a path is answered before the parser sees it.
std::vector<std::string> commandFirst(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto open = [&] {
    words.insert(words.begin(), "open");
    return words;
  };
  if (words.empty()) return open();
  const std::string& word = words.front();
  for (const char* own : {"-h", "--help", "--version"}) {
    if (word == own) return words;
  }
  if (word.starts_with('-')) return open();
  const auto commands = program.get_subcommands(static_cast<const std::function<bool(const CLI::App*)>&>(nullptr));
  const bool known = std::any_of(commands.begin(), commands.end(),
                                 [&](const CLI::App* command) { return command->get_name() == word; });
  if (known) return words;
  std::error_code failed;
  if (std::filesystem::exists(word, failed)) return open();
  throw UsageError(fmt::format("{}: there is no such command, file or folder: see foxscope --help", word));
}

int runCommand(const std::vector<std::string>& arguments, Console& console) {
  Selection selection;
  parseCommandLine(arguments, selection);
  console.setVerbosity(selection.verbosity);
  InterruptThread interrupt;
  const Session session{console, interrupt.token(), quotedCommandLine(arguments), programFolder(), interrupt};
  const int code = selection.action(session);
  console.endProgress();
  if (code == kInterrupted) console.error(interrupt.message());
  return code;
}

}  // namespace

void parseCommandLine(const std::vector<std::string>& arguments, Selection& selection) {
  CLI::App program("Foxscope shows what each head of a Forgetting Transformer forgets, and when.");
  describeProgram(program, selection);
  std::vector<std::string> reversed = commandFirst(program, arguments);
  std::reverse(reversed.begin(), reversed.end());
  try {
    program.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    Console::write(program.help());
    selection.action = [](const Session&) { return static_cast<int>(kDone); };
  } catch (const CLI::CallForVersion& version) {
    Console::write(fmt::format("{}\n", version.what()));
    selection.action = [](const Session&) { return static_cast<int>(kDone); };
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: see {} --help", error.what(), helpfulName(program)));
  }
  if (!selection.action) throw UsageError("no command given: see foxscope --help");
}

int runProgram(const std::vector<std::string>& arguments) {
  occupyStandardStreams();
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
    return fail("out of memory: cut the text with --limit, or leave parts out with --keep", kFailed);
  } catch (const std::exception& error) {
    return fail(
        fmt::format("{}: this is a flaw of the program, please report it with the command", firstLine(error.what())),
        kFailed);
  }
}

CLI::App* addSubcommand(CLI::App& program, Selection& selection, const std::string& name,
                        const std::string& description, const std::string& examples) {
  CLI::App* command = program.add_subcommand(name, description);
  command->set_help_flag("-h,--help", "Print this help");
  command->footer("Examples:\n" + examples);
  command->add_flag_callback(
      "-q,--quiet", [&selection] { selection.verbosity = Verbosity::quiet; }, "Say nothing but errors");
  command->add_flag_callback(
      "-v,--verbose", [&selection] { selection.verbosity = Verbosity::verbose; }, "Say what is being done");
  return command;
}

std::string quotedCommandLine(const std::vector<std::string>& arguments) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line = "foxscope";
  for (std::size_t index = 1; index < arguments.size(); ++index) {
    const std::string& argument = arguments[index];
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += ' ' + argument;
      continue;
    }
    std::string quoted;
    for (const char character : argument)
      quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
    line += fmt::format(" '{}'", quoted);
  }
  return line;
}

void requireDistinct(const std::filesystem::path& output, const std::filesystem::path& input) {
  std::error_code missing;
  if (std::filesystem::equivalent(output, input, missing)) {
    throw UsageError(fmt::format("{}: this file is being read, it cannot be the output too: choose another name for -o",
                                 output.string()));
  }
}

void requireWritable(const std::filesystem::path& output, bool force) { const AtomicFile unused(output, force); }

}  // namespace foxscope::cli
