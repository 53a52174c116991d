#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cli/console.h"
#include "backend/base/job.h"

namespace CLI {
class App;
}

namespace foxscope::cli {

class InterruptThread;

/// The exit statuses of the program.
enum ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2, kInterrupted = 130 };

/// The surroundings of a command, beside its own options.
struct CommandContext {
  Console& console;
  std::stop_token stop;
  std::string commandLine;              ///< as it could be typed beside its files, for those that are written
  std::filesystem::path programFolder;  ///< where the executable lies
  InterruptThread& interrupt;           ///< told what to say when a signal ends the work

  /// A job that stops with the session and reports to its console.
  [[nodiscard]] Job job() const {
    return {stop, [&console = console](const Progress& progress) { console.progress(progress); }, nullptr};
  }
};

/// A parsed command, ready to run. Returns an exit code; errors are thrown.
using Action = std::function<int(const CommandContext&)>;

/// Options of which a command needs one, by command.
using OneOfOptions = std::map<const CLI::App*, std::vector<std::string>>;

/// An argument that names a file or folder.
struct PathArgument {
  std::string value;    ///< as it was typed, of a model with NAME=
  bool output = false;  ///< it is written
  bool model = false;   ///< it is a model that runs
  bool force = false;   ///< of an output: a file that is there is overwritten
  bool named = false;   ///< it may stand behind NAME=
};

/// The result of parsing the command line.
struct ParsedCommand {
  Action action;
  std::vector<std::string> words;  ///< of the command line behind the program's name, the command first
  std::string command;             ///< "run"; of a group its first word, "eval"
  std::vector<PathArgument> paths;
  bool force = false;  ///< --force was given
  Verbosity verbosity = Verbosity::normal;
  /// The command line as a shell would take it where all its files lie in the working folder: figures and data that are
  /// published name no folders.
  std::string commandLine;
  OneOfOptions oneOf;  ///< filled with the commands, for what is told to be missing
};

/// Each adds one subcommand, whose callback sets `parsed.action`.
void addOpenCommand(CLI::App& program, ParsedCommand& parsed);
void addRunCommand(CLI::App& program, ParsedCommand& parsed);
void addInfoCommand(CLI::App& program, ParsedCommand& parsed);
void addCheckCommand(CLI::App& program, ParsedCommand& parsed);
void addImportCommand(CLI::App& program, ParsedCommand& parsed);
void addCompareCommand(CLI::App& program, ParsedCommand& parsed);
void addPageCommand(CLI::App& program, ParsedCommand& parsed);
void addMapCommand(CLI::App& program, ParsedCommand& parsed);
void addHeadsCommand(CLI::App& program, ParsedCommand& parsed);
void addEvalCommand(CLI::App& program, ParsedCommand& parsed);
void addFigureCommand(CLI::App& program, ParsedCommand& parsed);
void addTrainCommand(CLI::App& program, ParsedCommand& parsed);
void addGenerateCommand(CLI::App& program, ParsedCommand& parsed);
void addServeCommand(CLI::App& program, ParsedCommand& parsed);
void addAgentCommand(CLI::App& program, ParsedCommand& parsed);
void addBenchCommand(CLI::App& program, ParsedCommand& parsed);

/// All subcommands, in the order in which they were added.
std::vector<const CLI::App*> commandsOf(const CLI::App& parent);

/// A subcommand with the flags that all have in common: --help, -q, -v, and examples under its help.
CLI::App* addSubcommand(CLI::App& program, ParsedCommand& parsed, const std::string& name,
                        const std::string& description, const std::string& examples);

/// Fills the selection; what --help and --version ask for is printed.
/// @param arguments  the program's name first
/// @throws UsageError for what is not understood
void parseCommandLine(const std::vector<std::string>& arguments, ParsedCommand& parsed);

/// Parses the command line, runs what it asks for, and turns errors into one line and an exit code.
int runProgram(const std::vector<std::string>& arguments);

/// Refuses an output that is one of the inputs: --force must not destroy what is being read.
/// @throws UsageError naming the file
void requireDistinct(const std::filesystem::path& output, const std::filesystem::path& input);

/// Refuses an output that would be HDF5 under the name of something else.
/// @throws UsageError naming the ending
void requireHdf5Name(const std::filesystem::path& output);

/// Refuses an output that could not be written, before the work for it is done; standard output, "-", can be.
/// @throws Error in the words of AtomicFile: exists and no --force, folder missing, not writable
void requireWritable(const std::filesystem::path& output, bool force);

}  // namespace foxscope::cli
