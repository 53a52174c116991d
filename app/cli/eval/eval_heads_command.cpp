#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_heads_report.h"
#include "app/cli/eval/eval_options.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/eval/heads/heads.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval heads`, as typed.
struct EvalHeadsOptions : EvalOptions {
  bool force = false;
};

constexpr const char* kMeaning =
    "Windows are chosen as `foxscope eval loss` chooses them. Every statistic of `foxscope heads --split --by-class` "
    "is\n"
    "averaged over the windows; errors come from leaving out one document at a time, and take four documents of about\n"
    "one size. A decay time is -1 / mean log f over all windows. Rare words are those that occur once "
    "in\n"
    "100,000 words of the corpus or less.\n"
    "\n";

enum class Form { csv, json, hdf5 };

Form formOf(const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  if (ending == ".h5") return Form::hdf5;
  if (ending == ".json") return Form::json;
  if (ending == ".csv") return Form::csv;
  throw UsageError(fmt::format("-o {}: give the file one of the endings .h5, .csv and .json", output));
}

void writeEvaluation(const EvalHeadsOptions& options, Form form, const HeadsEvaluation& evaluation,
                     const CommandContext& context) {
  if (form == Form::hdf5) {
    write_heads_file(options.output, evaluation, {context.commandLine, ""},
                     options.force ? Overwrite::force : Overwrite::refuse);
    return;
  }
  const std::string text = form == Form::csv ? evaluatedHeadsCsv(evaluation) : evaluatedHeadsJson(evaluation);
  AtomicFile file(options.output, options.force);
  file.write(text.data(), text.size());
  file.commit();
}

int evaluateHeads(const EvalHeadsOptions& options, const CommandContext& context, Processes* processes) {
  const Form form = formOf(options.output);
  requireWritable(options.output, options.force);
  const HeadsRequest request{openModels(options, processes), evalInput(options)};
  std::size_t turn = 0;
  HeadsEvents events;
  events.model = [&](const std::string& name) {
    context.console.setSubject(modelTurn(name, ++turn, request.models.size()));
  };
  events.note = [&](const std::string& text) { context.console.note(text); };
  const auto evaluation = evaluate_heads(request, events, context.job(), processes);
  if (processes != nullptr && !processes->first()) return endOfOthers(evaluation.has_value());
  if (!evaluation) return kInterrupted;
  writeEvaluation(options, form, *evaluation, context);
  context.console.endProgress();
  context.console.report(evaluatedHeadsTable(*evaluation) + "written to " + options.output + '\n');
  return kDone;
}

}  // namespace

void addEvalHeadsCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<EvalHeadsOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "heads", "Statistics of every head over windows of a corpus, with errors",
      "  foxscope eval heads --model FOLDER --corpus books.jsonl.xz -o heads.h5\n"
      "  foxscope eval heads --model fox=FOLDER --model base=owner/name --corpus texts/ --length 8192 -o heads.csv\n"
      "  foxscope eval heads --model FOLDER --ids windows.npy -o heads.json");
  command->footer(kMeaning + command->get_footer());
  addEvalInput(*command, *options);
  command->add_option("-o,--output", options->output, "File to write: .h5, .csv or .json")
      ->type_name("FILE")
      ->required();
  addEvalRunning(*command, *options);
  command->add_flag("--force", options->force, "Overwrite the output");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) {
      checkEvalOptions("eval heads", *options);
      return evaluateDistributed(context, *options,
                                 [&](Processes* processes) { return evaluateHeads(*options, context, processes); });
    };
  });
}

}  // namespace foxscope::cli
