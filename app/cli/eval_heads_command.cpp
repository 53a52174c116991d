#include <filesystem>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/eval_command.h"
#include "app/cli/eval_heads_report.h"
#include "app/cli/model_names.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/eval/heads.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval heads`, as typed.
struct EvalHeadsOptions {
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
};

constexpr const char* kMeaning =
    "Windows are chosen as `foxscope eval loss` chooses them. Every statistic of `foxscope heads --split --by-class` "
    "is\n"
    "averaged over the windows; errors come from the spread over windows, clustered by document, and with a single\n"
    "document there are none. A decay time is -1 / mean log f over all windows. Rare words are those that occur once "
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

void checkOptions(const EvalHeadsOptions& options) {
  if (options.corpus.empty() == options.ids.empty()) {
    throw UsageError("eval heads needs one input: give either --corpus or --ids");
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

HeadsRequest makeRequest(const EvalHeadsOptions& options) {
  HeadsRequest request;
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
  EvaluationInput& input = request.input;
  input.corpus = options.corpus;
  if (options.length) input.windows.length = *options.length;
  input.windows.windows = options.windows;
  input.windows.seed = static_cast<std::uint64_t>(options.seed.value_or(0));
  input.ids.file = options.ids;
  if (!options.tensor.empty()) input.ids.tensor = options.tensor;
  input.ids.length = options.length;
  input.ids.windows = options.windows;
  return request;
}

void writeEvaluation(const EvalHeadsOptions& options, Form form, const HeadsEvaluation& evaluation,
                     const Session& session) {
  if (form == Form::hdf5) {
    write_heads_file(options.output, evaluation, {session.commandLine, ""},
                     options.force ? Overwrite::force : Overwrite::refuse);
    return;
  }
  const std::string text = form == Form::csv ? evaluatedHeadsCsv(evaluation) : evaluatedHeadsJson(evaluation);
  AtomicFile file(options.output, options.force);
  file.write(text.data(), text.size());
  file.commit();
}

int evaluateHeads(const EvalHeadsOptions& options, const Session& session) {
  checkOptions(options);
  const Form form = formOf(options.output);
  const HeadsRequest request = makeRequest(options);
  requireDistinct(options.output, options.corpus.empty() ? options.ids : options.corpus);
  requireWritable(options.output, options.force);
  std::size_t turn = 0;
  HeadsEvents events;
  events.model = [&](const std::string& name) {
    ++turn;
    session.console.setSubject(
        request.models.size() == 1 ? name : fmt::format("{} ({} of {})", name, turn, request.models.size()));
  };
  events.note = [&](const std::string& text) { session.console.note(text); };
  const auto evaluation = evaluate_heads(request, events, session.job());
  if (!evaluation) return kInterrupted;
  writeEvaluation(options, form, *evaluation, session);
  session.console.endProgress();
  Console::write(evaluatedHeadsTable(*evaluation) + "written to " + options.output + '\n');
  return kDone;
}

void addInputOptions(CLI::App& command, EvalHeadsOptions& options) {
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

void addEvalHeadsCommand(CLI::App& eval, Selection& selection) {
  const auto options = std::make_shared<EvalHeadsOptions>();
  CLI::App* command = addSubcommand(
      eval, selection, "heads", "Statistics of every head over windows of a corpus, with errors",
      "  foxscope eval heads --model FOLDER --corpus books.jsonl.xz -o heads.h5\n"
      "  foxscope eval heads --model fox=FOLDER --model base=owner/name --corpus texts/ --length 8192 -o heads.csv\n"
      "  foxscope eval heads --model FOLDER --ids windows.npy -o heads.json");
  command->footer(kMeaning + command->get_footer());
  addInputOptions(*command, *options);
  command->add_option("-o,--output", options->output, "File to write: .h5, .csv or .json")
      ->type_name("FILE")
      ->required();
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
  command->add_flag("--force", options->force, "Overwrite the output");
  command->callback([options, &selection] {
    selection.action = [options](const Session& session) { return evaluateHeads(*options, session); };
  });
}

}  // namespace foxscope::cli
