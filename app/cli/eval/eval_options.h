#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/running_options.h"
#include "backend/eval/planned_model.h"

namespace foxscope {
class Processes;
}

namespace foxscope::cli {

/// The options that all subcommands of `foxscope eval` over windows share, as typed.
struct EvalOptions : RunningOptions {
  std::vector<std::string> models;  ///< [NAME=]DIR
  std::string corpus;
  std::vector<std::string> corpora;  ///< of a command that takes several, in the place of `corpus`
  std::string ids;
  std::string tensor;
  std::optional<std::int64_t> length;
  std::optional<std::int64_t> windows;
  std::optional<std::int64_t> seed;
  bool seedOfIds = false;  ///< the seed draws something in windows of --ids too
  std::string output;
};

/// How many corpora a command takes.
enum class Corpora { one, several };
/// Models and windows: from --model to --seed.
void addEvalInput(CLI::App& command, EvalOptions& options, Corpora corpora = Corpora::one);
/// How models run: from --bos to --intervene.
void addEvalRunning(CLI::App& command, EvalOptions& options);

/// --fdr, for what names heads that are beyond chance.
void addFalseDiscoveryRate(CLI::App& command, std::optional<double>& rate);

/// @param command  "eval loss", for the message
/// @throws UsageError for options that do not go together, or an output that is the input
void checkEvalOptions(const std::string& command, const EvalOptions& options);

/// Opens the models that are to be evaluated.
/// @param processes  that each put all models on their own device; null: this one alone
/// @throws UsageError for names and interventions that are none, and as Engine::open
std::vector<OpenedModel> openModels(const EvalOptions& options, const Processes* processes = nullptr);
/// Does the work of an evaluation, with other processes where torchrun or srun started several.
int evaluateDistributed(const CommandContext& context, const EvalOptions& options,
                        const std::function<int(Processes*)>& work);
/// Sets the message for an evaluation that is interrupted where an earlier one has left work to go on from.
void sayLeft(const CommandContext& context, const std::string& output);
/// The message for an evaluation that is interrupted once it keeps its work in a file.
std::function<void(const std::filesystem::path& kept)> sayKept(const CommandContext& context);
/// How another process than the first ends, which has no part in what is written.
/// @throws Error where it was interrupted, which all have to know
int endOfOthers(bool done);
EvaluationInput evalInput(const EvalOptions& options);
/// The inputs of a command that takes several corpora: one for each, or the ids.
std::vector<EvaluationInput> evalInputs(const EvalOptions& options);

/// "fox (1 of 2)", or the name alone where there is one model.
std::string modelTurn(const std::string& name, std::size_t turn, std::size_t models);

}  // namespace foxscope::cli
