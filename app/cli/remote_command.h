#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "backend/agent/remote_path.h"

namespace foxscope::cli {

struct SentOutput;

/// The place in which a command does its work, where an argument names another machine (ssh://HOST/PATH). Commands that
/// read run files do so from afar themselves. Of the others
/// - one whose models, or whose folder, lie on another machine runs there: the files that it reads are sent there, and
///   its output is brought back unless it belongs there;
/// - any other reads copies of what lies elsewhere.
/// An output on another machine is written here and then sent.
class RemoteCommand {
 public:
  /// @throws UsageError for models on several machines, for what cannot be sent, and for commands that work on files of
  ///         their own machine alone
  explicit RemoteCommand(const ParsedCommand& parsed);

  /// Whether it has to run at all: some argument that the command does not read from afar itself names another machine.
  [[nodiscard]] bool needed() const { return m_needed; }
  /// @param run  runs the command here with other words, as ParsedCommand::words
  /// @returns the command's exit code
  int run(const CommandContext& context, const std::function<int(const std::vector<std::string>&)>& run);

 private:
  [[nodiscard]] std::string placeOfFolder() const;
  void requireOneProcess() const;
  int runThere(const CommandContext& context);
  bool fetchOutput(const agent::RemotePath& there, bool stays, const std::string& here, const CommandContext& context);
  int runForSending(const std::vector<SentOutput>& outputs,
                    const std::function<int(const std::vector<std::string>&)>& run);
  int sendUnsent(const SentOutput& output, const std::string& printed, const CommandContext& context);
  bool sendOutput(const SentOutput& output, const CommandContext& context);
  int runHere(const CommandContext& context, const std::function<int(const std::vector<std::string>&)>& run);
  void replace(const std::string& path, const std::string& with);

  std::vector<std::string> m_words;
  const ParsedCommand& m_parsed;
  std::string m_place;  ///< URL of a model or folder there; empty: it runs here
  bool m_needed = false;
};

}  // namespace foxscope::cli
