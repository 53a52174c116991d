#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_loss_summary.h"
#include "app/cli/model_names.h"
#include "backend/base/error.h"
#include "backend/eval/import.h"

namespace foxscope::cli {
namespace {

struct ImportOptions {
  std::string input;
  std::string name;
  std::string output;
  bool force = false;
  bool json = false;
};

// The authors' files are all named results.npz, in a folder named after the model.
std::string defaultName(const std::filesystem::path& input) {
  const auto whole = std::filesystem::absolute(input).lexically_normal();
  if (whole.stem() == "results" && whole.parent_path().has_filename()) return whole.parent_path().filename().string();
  return whole.stem().string();
}

int importLosses(const ImportOptions& options, const CommandContext& context) {
  requireDistinct(options.output, options.input);
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);
  const std::string name = options.name.empty() ? defaultName(options.input) : options.name;
  if (!isModelName(name)) {
    throw UsageError(
        fmt::format("\"{}\" is not a name of letters, digits, '.', '_' and '-': give one with --name", name));
  }
  const LossEvaluation evaluation = import_losses(options.input, name);
  write_loss_file(options.output, evaluation, {context.commandLine, ""},
                  options.force ? Overwrite::force : Overwrite::refuse);
  if (options.json) {
    Console::write(lossJson("", options.output, evaluation, {}));
  } else {
    context.console.report(lossText(evaluation, {}) + "written to " + options.output + '\n');
  }
  return kDone;
}

}  // namespace

void addEvalImportCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* command = addSubcommand(eval, parsed, "import",
                                    "Take in per-token losses that the Forgetting Transformer's own evaluation wrote",
                                    "  foxscope eval import fox-pro-760m/results.npz -o fox.h5\n"
                                    "  foxscope eval import results.npz --name fox -o fox.h5");
  command
      ->add_option("input", options->input,
                   "Archive with the array val/loss_per_token: [tokens], a mean over windows, or [windows, tokens]")
      ->type_name("RESULTS.npz")
      ->required();
  command->add_option("-o,--output", options->output, "File to write (HDF5)")->type_name("EVAL.h5")->required();
  command
      ->add_option("--name", options->name,
                   "Name of the model (default: the file's name, or its folder's where that is results.npz)")
      ->type_name("NAME");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return importLosses(*options, context); };
  });
}

}  // namespace foxscope::cli
