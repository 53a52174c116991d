#include "app/figure/figure_spec.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct SpecArguments {
  std::string spec;
  std::vector<std::string> files;
  std::string output;
  bool force = false;
};

// Values are given to the options themselves: a command line put together from names and values would be taken apart
// at other places, where a name holds "=" or a value is empty.
void setOption(const std::string& spec, CLI::App& command, const std::string& name,
               const figure::FigureSpec::Value& value) {
  // Where the figure goes is said by whoever draws it.
  CLI::Option* option = name == "output" || name == "force" ? nullptr : command.get_option_no_throw("--" + name);
  if (option == nullptr) {
    figure::refuseSpec(spec, fmt::format("\"{}\" is no option of a figure {}", name, command.get_name()));
  }
  const bool isFlag = option->get_items_expected_max() == 0;
  if (const bool* set = std::get_if<bool>(&value)) {
    if (!isFlag) figure::refuseSpec(spec, fmt::format("option \"{}\" is no text, number, or list of them", name));
    if (*set) option->add_result("true");
    return;
  }
  if (isFlag) figure::refuseSpec(spec, fmt::format("option \"{}\" is neither true nor false", name));
  for (const std::string& word : std::get<std::vector<std::string>>(value)) option->add_result(word);
}

int drawSpec(const SpecArguments& arguments, const Session& session) {
  const auto spec = figure::FigureSpec::read(arguments.spec);
  try {
    const FigureKind& kind = figureKind(spec.kind);
    CLI::App command("", kind.name);
    command.set_help_flag();
    Selection selection;
    kind.add(command, selection);
    for (const auto& [name, value] : spec.options) setOption(arguments.spec, command, name, value);
    command.get_option("--output")->add_result(arguments.output);
    if (arguments.force) command.get_option("--force")->add_result("true");
    for (const std::string& file : arguments.files) command.get_option("file")->add_result(file);
    command.parse(std::vector<std::string>());
    return selection.action(session);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}: see foxscope figure {} --help", arguments.spec, error.what(), spec.kind));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", arguments.spec, error.what()));
  }
}

}  // namespace

void addFigureSpec(CLI::App& figure, Selection& selection) {
  CLI::App* command = addSubcommand(
      figure, selection, "spec", "Draw a figure as it is written down in a JSON file",
      "  foxscope figure spec resources/figures/maps.json run.h5 -o maps.pdf\n"
      R"(  {"foxscope_figure": 1, "kind": "maps", "options": {"heads": ["1:2", "7:2"], "width": "iclr"}})");
  const auto arguments = std::make_shared<SpecArguments>();
  command->add_option("spec", arguments->spec, "What kind of figure, and its options")
      ->type_name("SPEC.json")
      ->required();
  command->add_option("file", arguments->files, "What it is drawn from")->type_name("FILE.h5")->required();
  command->add_option("-o,--output", arguments->output, "The file to write: .pdf, .svg or .png")
      ->type_name("FILE")
      ->required();
  command->add_flag("--force", arguments->force, "Overwrite the output");
  command->callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawSpec(*arguments, session); };
  });
}

}  // namespace foxscope::cli
