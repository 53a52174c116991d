#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_loss_summary.h"
#include "app/cli/eval/eval_options.h"
#include "app/description/number_text.h"
#include "backend/eval/loss/loss.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval loss`, as typed.
struct LossOptions : EvalOptions {
  bool force = false;
  bool json = false;
};

constexpr const char* kRule =
    "Windows: each document is cut into tokens as a whole (by the first model's tokenizer); one of n tokens has room\n"
    "for floor(n / N) windows. Of all these places as many as --windows are drawn without replacement, so that "
    "documents\n"
    "weigh as much as they are long; a document's windows then lie at random offsets in it, without overlap and never\n"
    "across its end. Random numbers come from std::mt19937_64, so that a seed gives the same windows on every "
    "platform.\n"
    "BOS goes before every window. Models whose tokenizer cuts the texts otherwise get the same texts, and are "
    "compared\n"
    "by bits per byte. Standard errors come from the spread over documents, each left out in turn; with fewer than "
    "four\n"
    "documents, or where a few outweigh the others, there are none. A run that ends early is taken up again by the "
    "same\n"
    "command from OUTPUT.partial.\n"
    "\n";

LossRequest makeRequest(const LossOptions& options, const Processes* processes) {
  LossRequest request;
  request.models = openModels(options, processes);
  request.input = evalInput(options);
  request.output = options.output;
  request.start_anew = options.force;
  return request;
}

int evaluateLoss(const LossOptions& options, const CommandContext& context, Processes* processes) {
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);
  const LossRequest request = makeRequest(options, processes);
  std::size_t turn = 0;
  LossEvents events;
  events.model = [&](const std::string& name) {
    context.console.setSubject(modelTurn(name, ++turn, request.models.size()));
  };
  events.partial = sayKept(context);
  const auto result = evaluate_loss(request, events, context.job(), processes);
  if (processes != nullptr && !processes->first()) return endOfOthers(result.has_value());
  if (!result) return kInterrupted;
  for (std::size_t n = 0; n < result->timings.size(); ++n) {
    const LossTiming& timing = result->timings[n];
    const std::string& name = request.models[n].request.name;
    for (const std::string& note : timing.notes) context.console.note(fmt::format("{}: {}", name, note));
    if (timing.resumed > 0) {
      context.console.note(fmt::format("{}: the losses of {} of {} windows were computed before", name, timing.resumed,
                                       result->evaluation.models[n].losses.windows));
    }
    context.console.detail(fmt::format("{}: {} tokens, attention by {}", name, countText(timing.tokens),
                                       timing.attention_kernel.empty() ? "nothing" : timing.attention_kernel));
  }
  write_loss_file(options.output, result->evaluation, {context.commandLine, ""},
                  options.force ? Overwrite::force : Overwrite::refuse);
  finish_loss(request);
  context.console.endProgress();
  if (options.json) {
    Console::write(lossJson("", options.output, result->evaluation, result->timings));
  } else {
    context.console.report(lossText(result->evaluation, result->timings) + "written to " + options.output + '\n');
  }
  return kDone;
}

}  // namespace

void addEvalLossCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<LossOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "loss", "Losses of models over windows of a corpus, with errors",
      "  foxscope eval loss --model FOLDER --corpus books.jsonl.xz -o eval.h5\n"
      "  foxscope eval loss --model fox=FOLDER --model base=owner/name --corpus texts/ --length 8192 --windows 24 \\\n"
      "      --seed 1 -o eval.h5\n"
      "  foxscope eval loss --model FOLDER --ids windows.npy -o eval.h5 --json\n"
      "  foxscope eval loss --model FOLDER --corpus books.jsonl.xz --intervene '*:*:one' -o ungated.h5");
  command->footer(kRule + command->get_footer());
  addEvalInput(*command, *options);
  command->add_option("-o,--output", options->output, "File to write (HDF5)")->type_name("EVAL.h5")->required();
  addEvalRunning(*command, *options);
  command->add_flag("--force", options->force, "Overwrite the output, and unfinished work of other settings");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) {
      checkEvalOptions("eval loss", *options);
      return evaluateDistributed(context, *options,
                                 [&](Processes* processes) { return evaluateLoss(*options, context, processes); });
    };
  });
}

}  // namespace foxscope::cli
