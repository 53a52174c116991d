#include "app/cli/eval/eval_loss_command.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/model_names.h"
#include "app/cli/text_table.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/eval/import.h"
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
    "by bits per byte. Standard errors come from the spread over documents, each left out in turn; they take four\n"
    "documents of about one size. A run that ends early is taken up again by the same command from OUTPUT.partial.\n"
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
  events.note = [&](const std::string& text) { context.console.note(text); };
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
    context.console.detail(fmt::format("{}: {} tokens, attention by {}", name, count_text(timing.tokens),
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

using Json = nlohmann::ordered_json;
using enum TextTable::Align;

double tokensPerSecond(const LossTiming& timing) {
  return timing.forward_seconds > 0 ? static_cast<double>(timing.tokens) / timing.forward_seconds : 0.0;
}

std::int64_t tokensOf(const EvaluatedModel& model) {
  return std::accumulate(model.losses.tokens.begin(), model.losses.tokens.end(), std::int64_t{0});
}

/// "-" where there is no number.
std::string estimateCell(const std::optional<Estimate>& estimate, int digits) {
  return estimate ? estimate_text(*estimate, digits) : "-";
}

void put(Json& object, const std::string& name, const std::optional<Estimate>& estimate) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  object[name] = estimate ? number(estimate->value) : Json(nullptr);
  object[name + "_error"] = estimate ? number(estimate->error) : Json(nullptr);
}

Json modelJson(const EvaluatedModel& model) {
  Json json{{"name", model.info.name}};
  put(json, "nats_per_token", model.nats_per_token());
  put(json, "bits_per_byte", model.bits_per_byte());
  put(json, "perplexity", model.perplexity());
  json["averaged"] = model.averaged;
  json["windows"] = model.losses.windows;
  json["documents"] = model.document_count();
  json["effective_documents"] = model.nats_per_token().over.effective;
  json["tokens"] = tokensOf(model);
  json["dtype"] = to_string(model.info.dtype);
  json["device"] = model.info.device;
  json["pruning_tolerance"] = model.info.pruning_tolerance;
  json["intervention"] = model.info.intervention;
  json["weights_sha256"] = model.info.weights_sha256;
  return json;
}

void addTiming(Json& json, const LossTiming& timing) {
  json["windows_resumed"] = timing.resumed;
  json["tokens_per_second"] = tokensPerSecond(timing);
  json["seconds"] = {{"load", timing.load_seconds}, {"forward", timing.forward_seconds}};
  json["attention_kernel"] = timing.attention_kernel;
}

std::string differenceTable(const LossEvaluation& evaluation) {
  TextTable table({"difference", "nats/token", "bits/byte"}, {left, right, right});
  const auto& models = evaluation.models;
  for (std::size_t a = 0; a < models.size(); ++a) {
    for (std::size_t b = a + 1; b < models.size(); ++b) {
      const LossDifference difference = loss_difference(models[a], models[b]);
      table.addRow({fmt::format("{} minus {}", models[a].info.name, models[b].info.name),
                    estimateCell(difference.nats_per_token, 4), estimateCell(difference.bits_per_byte, 4)});
    }
  }
  return table.text();
}

/// Names the groups of every error in the tables. Documents weigh by tokens in nats/token, and by bytes in bits/byte,
/// so that they may suffice for the one and not for the other: then each is named with its own reason.
std::string errorsOf(const LossEvaluation& evaluation) {
  using Errors = std::pair<std::string, ErrorGroups>;
  std::vector<Errors> all;
  for (const EvaluatedModel& model : evaluation.models) {
    const std::string name = evaluation.models.size() == 1 ? "" : model.info.name + ", ";
    all.emplace_back(name + "nats/token", model.nats_per_token().over);
    if (const auto bits = model.bits_per_byte()) all.emplace_back(name + "bits/byte", bits->over);
  }
  const bool known = all.front().second.suffice();
  if (std::ranges::all_of(all, [&](const Errors& each) { return each.second.suffice() == known; })) {
    return errors_text(all.front().second);
  }
  std::string text;
  for (const auto& [name, over] : all)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", name, errors_text(over));
  return text;
}

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
  parsed.oneOf[command] = {"--corpus", "--ids"};
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

std::string lossText(const LossEvaluation& evaluation, const std::vector<LossTiming>& timings) {
  std::vector<std::string> header = {"model",   "nats/token", "bits/byte", "perplexity",
                                     "windows", "documents",  "tokens"};
  std::vector<TextTable::Align> align = {left, right, right, right, right, right, right};
  if (!timings.empty()) {
    header.emplace_back("tokens/s");
    align.push_back(right);
  }
  TextTable table(header, align);
  for (std::size_t n = 0; n < evaluation.models.size(); ++n) {
    const EvaluatedModel& model = evaluation.models[n];
    std::vector<std::string> row = {model.info.name,
                                    estimateCell(model.nats_per_token(), 4),
                                    estimateCell(model.bits_per_byte(), 4),
                                    estimateCell(model.perplexity(), 2),
                                    model.averaged ? "averaged" : count_text(model.losses.windows),
                                    model.averaged ? "-" : count_text(model.document_count()),
                                    count_text(tokensOf(model))};
    if (!timings.empty()) {
      row.push_back(timings[n].tokens > 0 ? count_text(std::llround(tokensPerSecond(timings[n]))) : "-");
    }
    table.addRow(row);
  }
  std::string text = table.text();
  if (evaluation.models.size() > 1) text += '\n' + differenceTable(evaluation);
  const EvaluatedModel& first = evaluation.models.front();
  text += first.averaged ? "no errors: the losses are means over windows that are not known" : errorsOf(evaluation);
  return text + '\n';
}

std::string lossJson(const std::string& kind, const std::string& path, const LossEvaluation& evaluation,
                     const std::vector<LossTiming>& timings) {
  Json json;
  if (!kind.empty()) json["kind"] = kind;
  json[kind.empty() ? "output" : "path"] = path;
  json["source"] = evaluation.corpus.source;
  json["length"] = evaluation.models.front().losses.length;
  json["models"] = Json::array();
  for (std::size_t n = 0; n < evaluation.models.size(); ++n) {
    Json model = modelJson(evaluation.models[n]);
    if (!timings.empty()) addTiming(model, timings[n]);
    json["models"].push_back(std::move(model));
  }
  json["differences"] = Json::array();
  const auto& models = evaluation.models;
  for (std::size_t a = 0; a < models.size(); ++a) {
    for (std::size_t b = a + 1; b < models.size(); ++b) {
      const LossDifference difference = loss_difference(models[a], models[b]);
      Json entry{{"model", models[a].info.name}, {"minus", models[b].info.name}};
      put(entry, "nats_per_token", difference.nats_per_token);
      put(entry, "bits_per_byte", difference.bits_per_byte);
      json["differences"].push_back(std::move(entry));
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

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
