#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foxscope::cli {

/// A command and the words that call it: "foxscope eval loss".
struct NamedCommand {
  std::string name;
  const CLI::App* command = nullptr;
};

/// The program itself and all commands, each before its subcommands.
std::vector<NamedCommand> everyCommand(const CLI::App& program);

}  // namespace foxscope::cli
