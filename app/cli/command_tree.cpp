#include "app/cli/command_tree.h"

#include <CLI/CLI.hpp>

#include "app/cli/command.h"

namespace foxscope::cli {
namespace {

void collect(const CLI::App& command, const std::string& name, std::vector<NamedCommand>& all) {
  all.push_back({name, &command});
  for (const CLI::App* sub : commandsOf(command)) collect(*sub, name + ' ' + sub->get_name(), all);
}

}  // namespace

std::vector<NamedCommand> everyCommand(const CLI::App& program) {
  std::vector<NamedCommand> all;
  collect(program, program.get_name(), all);
  return all;
}

}  // namespace foxscope::cli
