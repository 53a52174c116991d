#include "app/cli/eval/eval_options.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/distributed.h"
#include "app/cli/interrupt.h"
#include "app/cli/values.h"
#include "app/figure/figure_kind.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_partial.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {

void addEvalInput(CLI::App& command, EvalOptions& options, Corpora corpora) {
  command
      .add_option("--model", options.models,
                  "Checkpoint folder or hub id, evaluated under NAME (default: its last part); repeatable")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  constexpr const char* kCorpus =
      "Texts: a .txt, .jsonl, .jsonl.xz or .jsonl.gz file (one object a line, the text under \"text\"), or a folder of "
      "such files";
  if (corpora == Corpora::several) {
    command
        .add_option("--corpus", options.corpora,
                    fmt::format("{}; repeatable: windows are chosen in each by itself", kCorpus))
        ->type_name("FILE|FOLDER")
        ->allow_extra_args(false);
  } else {
    command.add_option("--corpus", options.corpus, kCorpus)->type_name("FILE|FOLDER");
  }
  command
      .add_option("--ids", options.ids,
                  "Instead of a corpus: windows of token ids, [windows, tokens], in .npy or .safetensors")
      ->type_name("FILE");
  command.add_option("--tensor", options.tensor, "Name of the tensor in a .safetensors file that holds several")
      ->type_name("NAME");
  command
      .add_option("--length", options.length, "Tokens of a window (default: 2048; with --ids all, else the first N)")
      ->type_name("N");
  command
      .add_option("--windows", options.windows,
                  "Number of windows (default: 24, or as many as there is room for; with --ids all, else the first N)")
      ->type_name("N");
  command.add_option("--seed", options.seed, "Seed of the random numbers (default: 0)")
      ->type_name("S")
      ->check([](const std::string& word) { return tooLarge(word, std::numeric_limits<std::int64_t>::max()); });
}

void addEvalRunning(CLI::App& command, EvalOptions& options) {
  addRunningOptions(command, options, "every window");
  addInterventions(command, options, "Change gates or outputs in all models, as in foxscope run; repeatable");
}

void addFalseDiscoveryRate(CLI::App& command, std::optional<double>& rate) {
  command.add_option("--fdr", rate, figure::kFalseDiscoveryHelp)->type_name("Q");
}

void checkEvalOptions(const std::string& command, const EvalOptions& options) {
  const bool corpus = !options.corpus.empty() || !options.corpora.empty();
  if (corpus != options.ids.empty()) {
    throw UsageError(fmt::format("{} needs one input: give either --corpus or --ids", command));
  }
  if (options.ids.empty() && !options.tensor.empty()) {
    throw UsageError(fmt::format("--tensor {}: goes with --ids only", options.tensor));
  }
  if (!corpus && options.seed && !options.seedOfIds) {
    throw UsageError("--seed: windows of --ids are not drawn: leave it out");
  }
  if (options.seed && *options.seed < 0) throw UsageError(fmt::format("--seed {}: use a number from 0", *options.seed));
  for (const std::string& input : options.corpora) requireDistinct(options.output, input);
  if (options.corpora.empty()) requireDistinct(options.output, corpus ? options.corpus : options.ids);
}

std::vector<OpenedModel> openModels(const EvalOptions& options, const Processes* processes) {
  const Engine engine;
  std::vector<OpenedModel> models;
  for (const NamedModel& named : parseModels(options.models)) {
    ModelRequest request = modelRequest(options, named);
    if (processes != nullptr && processes->device().cuda) {
      request.device = {DeviceChoice::Kind::cuda, processes->device().index};
    }
    models.push_back(engine.open(request));
  }
  return models;
}

int evaluateDistributed(const CommandContext& context, const EvalOptions& options,
                        const std::function<int(Processes*)>& work) {
  sayLeft(context, options.output);
  return runDistributed(context, DeviceChoice::parse(options.device), "give the same command again", work);
}

void sayLeft(const CommandContext& context, const std::string& output) {
  std::error_code failed;
  if (const auto partial = partial_path(output); std::filesystem::exists(partial, failed)) sayKept(context)(partial);
}

std::function<void(const std::filesystem::path& kept)> sayKept(const CommandContext& context) {
  return [&interrupt = context.interrupt](const std::filesystem::path& kept) {
    interrupt.say(
        fmt::format("interrupted: the work so far is in {}, the same command goes on from it", kept.string()));
  };
}

int endOfOthers(bool done) {
  if (!done) throw Error("interrupted: the same command goes on from the work so far");
  return kDone;
}

EvaluationInput evalInput(const EvalOptions& options) {
  EvaluationInput input;
  input.corpus = options.corpus;
  if (options.length) input.windows.length = *options.length;
  input.windows.windows = options.windows;
  input.windows.seed = static_cast<std::uint64_t>(options.seed.value_or(0));
  input.ids.file = options.ids;
  if (!options.tensor.empty()) input.ids.tensor = options.tensor;
  input.ids.length = options.length;
  input.ids.windows = options.windows;
  return input;
}

std::vector<EvaluationInput> evalInputs(const EvalOptions& options) {
  std::vector<EvaluationInput> inputs;
  for (const std::string& corpus : options.corpora) {
    inputs.push_back(evalInput(options));
    inputs.back().corpus = corpus;
  }
  if (inputs.empty()) inputs.push_back(evalInput(options));
  return inputs;
}

std::string modelTurn(const std::string& name, std::size_t turn, std::size_t models) {
  return models == 1 ? name : fmt::format("{} ({} of {})", name, turn, models);
}

}  // namespace foxscope::cli
