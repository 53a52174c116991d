#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/eval_command.h"
#include "app/cli/eval_loss_summary.h"
#include "app/cli/interrupt.h"
#include "app/cli/model_names.h"
#include "backend/base/error.h"
#include "backend/eval/loss.h"
#include "backend/eval/loss_partial.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval loss`, as typed.
struct LossOptions {
  std::vector<std::string> models;
  std::string corpus;
  std::string ids;
  std::string tensor;
  std::optional<std::int64_t> length;
  std::optional<std::int64_t> windows;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> bos;
  std::string device = "auto";
  std::string dtype = "auto";
  std::optional<double> pruning;
  std::vector<std::string> interventions;
  std::string output;
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
    "by bits per byte. Standard errors come from the spread over windows, clustered by document; with a single "
    "document\n"
    "there are none. A run that ends early is taken up again by the same command from OUTPUT.partial.\n"
    "\n";

void checkOptions(const LossOptions& options) {
  if (options.corpus.empty() == options.ids.empty()) {
    throw UsageError("eval loss needs one input: give either --corpus or --ids");
  }
  if (options.ids.empty() && !options.tensor.empty()) {
    throw UsageError(fmt::format("--tensor {}: goes with --ids only", options.tensor));
  }
  if (options.corpus.empty() && options.seed) {
    throw UsageError("--seed: windows of --ids are not drawn: leave it out");
  }
  if (options.seed && *options.seed < 0) throw UsageError(fmt::format("--seed {}: use a number from 0", *options.seed));
  if (options.bos && (*options.bos < 0 || *options.bos > std::numeric_limits<std::int32_t>::max())) {
    throw UsageError(fmt::format("--bos {}: use a token id of the model's vocabulary", *options.bos));
  }
}

LossRequest makeRequest(const LossOptions& options) {
  LossRequest request;
  for (const NamedModel& named : parseModels(options.models)) {
    RunRequest model;
    model.name = named.name;
    model.model = named.path;
    if (options.bos) model.bos = static_cast<std::int32_t>(*options.bos);
    model.device = options.device;
    model.dtype = options.dtype;
    model.pruning_tolerance = options.pruning;
    for (const std::string& text : options.interventions) model.interventions.push_back(Intervention::parse(text));
    request.models.push_back(std::move(model));
  }
  request.corpus = options.corpus;
  if (options.length) request.windows.length = *options.length;
  request.windows.windows = options.windows;
  request.windows.seed = static_cast<std::uint64_t>(options.seed.value_or(0));
  request.ids.file = options.ids;
  if (!options.tensor.empty()) request.ids.tensor = options.tensor;
  request.ids.length = options.length;
  request.ids.windows = options.windows;
  request.output = options.output;
  request.start_anew = options.force;
  return request;
}

int evaluateLoss(const LossOptions& options, const Session& session) {
  checkOptions(options);
  const LossRequest request = makeRequest(options);
  requireDistinct(options.output, options.corpus.empty() ? options.ids : options.corpus);
  requireWritable(options.output, options.force);

  std::size_t turn = 0;
  LossEvents events;
  events.model = [&](const std::string& name) {
    ++turn;
    session.console.setSubject(
        request.models.size() == 1 ? name : fmt::format("{} ({} of {})", name, turn, request.models.size()));
  };
  events.partial = [&](const std::filesystem::path& path) {
    session.interrupt.say(
        fmt::format("interrupted: the work so far is in {}, the same command goes on from it", path.string()));
  };
  const auto result = evaluate_loss(request, events, session.job());
  if (!result) return kInterrupted;
  for (std::size_t n = 0; n < result->timings.size(); ++n) {
    const LossTiming& timing = result->timings[n];
    const std::string& name = request.models[n].name;
    for (const std::string& note : timing.notes) session.console.note(fmt::format("{}: {}", name, note));
    if (timing.resumed > 0) {
      session.console.note(fmt::format("{}: the losses of {} of {} windows were computed before", name, timing.resumed,
                                       result->evaluation.models[n].losses.windows));
    }
    session.console.detail(fmt::format("{}: {} tokens, attention by {}", name, countText(timing.tokens),
                                       timing.attention_kernel.empty() ? "nothing" : timing.attention_kernel));
  }
  write_loss_file(options.output, result->evaluation, {session.commandLine, ""},
                  options.force ? Overwrite::force : Overwrite::refuse);
  finish_loss(request);
  session.console.endProgress();
  Console::write(options.json ? lossJson("", options.output, result->evaluation, result->timings)
                              : lossText(result->evaluation, result->timings) + "written to " + options.output + '\n');
  return kDone;
}

void addInputOptions(CLI::App& command, LossOptions& options) {
  command
      .add_option("--model", options.models,
                  "Checkpoint folder or hub id, evaluated under NAME (default: its last part); repeatable")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  command
      .add_option("--corpus", options.corpus,
                  "Texts: a .txt, .jsonl, .jsonl.xz or .jsonl.gz file (one object a line, the text under \"text\"), or "
                  "a folder of such files")
      ->type_name("FILE|FOLDER");
  command
      .add_option("--ids", options.ids,
                  "Instead of a corpus: windows of token ids, [windows, tokens], in .npy or .safetensors")
      ->type_name("FILE");
  command.add_option("--tensor", options.tensor, "Of a .safetensors file that holds several")->type_name("NAME");
  command
      .add_option("--length", options.length, "Tokens of a window (default: 2048; with --ids all, else the first N)")
      ->type_name("N");
  command
      .add_option("--windows", options.windows,
                  "Number of windows (default: 24, or as many as there is room for; with --ids all, else the first N)")
      ->type_name("N");
  command.add_option("--seed", options.seed, "Of the random numbers (default: 0)")->type_name("S");
}

}  // namespace

void addEvalLossCommand(CLI::App& eval, Selection& selection) {
  const auto options = std::make_shared<LossOptions>();
  CLI::App* command = addSubcommand(
      eval, selection, "loss", "Losses of models over windows of a corpus, with errors",
      "  foxscope eval loss --model FOLDER --corpus books.jsonl.xz -o eval.h5\n"
      "  foxscope eval loss --model fox=FOLDER --model base=owner/name --corpus texts/ --length 8192 --windows 24 \\\n"
      "      --seed 1 -o eval.h5\n"
      "  foxscope eval loss --model FOLDER --ids windows.npy -o eval.h5 --json\n"
      "  foxscope eval loss --model FOLDER --corpus books.jsonl.xz --intervene '*:*:one' -o ungated.h5");
  command->footer(kRule + command->get_footer());
  addInputOptions(*command, *options);
  command->add_option("-o,--output", options->output, "File to write (HDF5)")->type_name("EVAL.h5")->required();
  command->add_option("--bos", options->bos, "Token that begins every window (default: the model's)")->type_name("ID");
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:N (default: auto)")->type_name("DEVICE");
  command->add_option("--dtype", options->dtype, "auto, float32 or bfloat16 (default: auto)")->type_name("DTYPE");
  command
      ->add_option("--pruning", options->pruning,
                   "Share of a row's attention that may be skipped (default: 2^-24; 0: none)")
      ->type_name("TOLERANCE");
  command
      ->add_option("--intervene", options->interventions,
                   "Change gates or outputs in all models, as in foxscope run; repeatable")
      ->type_name("LAYER:HEAD:KIND")
      ->allow_extra_args(false);
  command->add_flag("--force", options->force, "Overwrite the output, and unfinished work of other settings");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &selection] {
    selection.action = [options](const Session& session) { return evaluateLoss(*options, session); };
  });
}

}  // namespace foxscope::cli
