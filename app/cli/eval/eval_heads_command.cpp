#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "backend/base/atomic_file.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/eval/heads/heads.h"
#include "backend/model/training/processes.h"
#include "backend/trace/mixer_text.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(double value) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return "inf";
  return std::abs(value) < 100 ? fmt::format("{:.2f}", value) : count_text(std::llround(value));
}

std::string errorCell(double error) { return std::isnan(error) ? "" : "±" + cell(error); }

/// Columns of the table: names of statistics as people say them.
struct Column {
  const char* name;
  const char* title;
};
constexpr Column kColumns[] = {{"rate_decay_time", "decay time"},
                               {"d50_without_first", "d50"},
                               {"d50_without_gate_without_first", "ungated d50"},
                               {"entropy", "entropy"},
                               {"mass_on_first", "on key 0"},
                               {"divergence", "divergence"},
                               {"locality_by_content_without_first", "by content"},
                               {"locality_by_decay_without_first", "by decay"}};

std::string modelTable(const EvaluatedHeads& model) {
  std::vector<std::string> header = {"layer", "head"};
  std::vector<std::string> units = {"", ""};
  for (const Column& column : kColumns) {
    header.insert(header.end(), {column.title, "error"});
    const HeadArray* const array = find_array(model.numbers, column.name);
    units.insert(units.end(), {array == nullptr || array->unit == "1" ? "" : array->unit, ""});
  }
  const bool mixed = !model.info.mixers.empty();
  if (mixed) {
    header.insert(header.begin() + 2, "mixer");
    units.insert(units.begin() + 2, "");
  }
  const std::size_t columns = header.size();
  TextTable table(std::move(header), std::vector(columns, TextTable::Align::right));
  table.addRow(std::move(units));
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    if (!model.has_head(head)) continue;
    const auto heads = static_cast<std::size_t>(model.info.heads);
    const auto layer = static_cast<int>(head / heads);
    std::vector<std::string> cells = {std::to_string(head / heads), std::to_string(head % heads)};
    if (mixed) cells.push_back(mixer_text(model.info, layer));
    for (const Column& column : kColumns) {
      const HeadArray* const array = find_array(model.numbers, column.name);
      cells.push_back(array == nullptr ? "-" : cell(array->value[head]));
      cells.push_back(array == nullptr ? "" : errorCell(array->error[head]));
    }
    table.addRow(std::move(cells));
  }
  const ErrorGroups documents = model.documents();
  const std::int64_t windows = std::ssize(model.windows->tokens);
  return fmt::format("{}, {} {} of up to {} {} from {} {}; d50 and the parts of locality without key 0\n",
                     model.info.name, windows, plural(windows, "window"), count_text(model.info.length),
                     plural(model.info.length, "token"), documents.count, plural(documents.count, "document")) +
         table.text() + errors_text(documents) + '\n';
}

Json estimate(const HeadArray& array, std::size_t place) {
  return {{"value", jsonNumber(array.value[place])}, {"error", jsonNumber(array.error[place])}};
}

Json distancesJson(const EvaluatedHeads& model, std::size_t head) {
  Json profiles = Json::object();
  const std::size_t bins = model.distances.size();
  for (const HeadArray& array : model.by_distance) {
    Json list = Json::array();
    for (std::size_t bin = 0; bin < bins; ++bin) {
      Json one = {{"from", model.distances[bin].from}, {"to", model.distances[bin].to - 1}};
      one.update(estimate(array, head * bins + bin));
      list.push_back(std::move(one));
    }
    profiles[array.name] = std::move(list);
  }
  return profiles;
}

Json classesJson(const EvaluatedHeads& model, std::size_t head) {
  Json classes = Json::object();
  for (std::size_t n = 0; n < model.class_tokens.size(); ++n) {
    Json one = {{"tokens", model.class_tokens[n]}};
    for (const HeadArray& array : model.by_class) one[array.name] = estimate(array, head * kTokenClasses + n);
    classes[to_string(static_cast<TokenClass>(n))] = std::move(one);
  }
  return classes;
}

Json modelJson(const EvaluatedHeads& model) {
  Json heads = Json::array();
  for (std::size_t head = 0; head < model.head_count(); ++head) {
    if (!model.has_head(head)) continue;
    const auto count = static_cast<std::size_t>(model.info.heads);
    Json numbers = Json::object();
    for (const HeadArray& array : model.numbers) {
      numbers[array.name] = estimate(array, head);
      numbers[array.name]["unit"] = array.unit;
    }
    Json one = {{"layer", head / count}, {"head", head % count}, {"numbers", std::move(numbers)}};
    if (!model.by_distance.empty()) one["by_distance"] = distancesJson(model, head);
    if (!model.by_class.empty()) one["gates_by_class"] = classesJson(model, head);
    heads.push_back(std::move(one));
  }
  const ErrorGroups documents = model.documents();
  return {{"model", model.info.name},     {"windows", model.windows->tokens.size()},
          {"documents", documents.count}, {"effective_documents", documents.effective},
          {"length", model.info.length},  {"heads", std::move(heads)}};
}

using NamedNumbers = std::vector<std::pair<std::string, double>>;

void addEstimate(NamedNumbers& columns, const std::string& name, const HeadArray& array, std::size_t place) {
  columns.emplace_back(name, array.value[place]);
  columns.emplace_back(name + "_error", array.error[place]);
}

NamedNumbers columnsOf(const EvaluatedHeads& model, std::size_t head) {
  NamedNumbers columns;
  for (const HeadArray& array : model.numbers) addEstimate(columns, array.name, array, head);
  const std::size_t bins = model.distances.size();
  for (const HeadArray& array : model.by_distance) {
    const std::size_t stem = array.name.starts_with("mass") ? 4 : array.name.size();
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const std::string name = fmt::format("{}_{}_{}{}", array.name.substr(0, stem), model.distances[bin].from,
                                           model.distances[bin].to - 1, array.name.substr(stem));
      addEstimate(columns, name, array, head * bins + bin);
    }
  }
  for (std::size_t n = 0; n < model.class_tokens.size(); ++n) {
    const std::string name = to_string(static_cast<TokenClass>(n));
    columns.emplace_back("tokens_" + name, static_cast<double>(model.class_tokens[n]));
    for (const HeadArray& array : model.by_class) {
      addEstimate(columns, array.name + "_" + name, array, head * kTokenClasses + n);
    }
  }
  return columns;
}

/// The figures that tell the heads of each model apart, with standard errors, one line a head.
std::string evaluatedHeadsTable(const HeadsEvaluation& evaluation) {
  std::vector<std::string> tables;
  for (const EvaluatedHeads& model : evaluation.models) tables.push_back(modelTable(model));
  return fmt::format("{}", fmt::join(tables, "\n"));
}

/// Every number with its error and unit; what is not known is null.
std::string evaluatedHeadsJson(const HeadsEvaluation& evaluation) {
  Json models = Json::array();
  for (const EvaluatedHeads& model : evaluation.models) models.push_back(modelJson(model));
  const Json document{
      {"source", evaluation.corpus.source}, {"seed", evaluation.corpus.seed}, {"models", std::move(models)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// One line a model and head; each number NAME is followed by NAME_error. A missing value is empty.
std::string evaluatedHeadsCsv(const HeadsEvaluation& evaluation) {
  // Models whose windows differ in length have other bins: a column that one of them lacks is empty there.
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const EvaluatedHeads& model : evaluation.models) {
    for (const auto& [name, value] : columnsOf(model, 0)) {
      if (known.insert(name).second) names.push_back(name);
    }
  }
  std::string text = fmt::format("model,layer,head,{}\n", fmt::join(names, ","));
  for (const EvaluatedHeads& model : evaluation.models) {
    for (std::size_t head = 0; head < model.head_count(); ++head) {
      if (!model.has_head(head)) continue;
      const auto heads = static_cast<std::size_t>(model.info.heads);
      const NamedNumbers columns = columnsOf(model, head);
      const std::map<std::string, double> values(columns.begin(), columns.end());
      text += fmt::format("{},{},{}", model.info.name, head / heads, head % heads);
      for (const std::string& name : names) {
        const auto found = values.find(name);
        text += fmt::format(",{}", found == values.end() ? "" : digits(found->second));
      }
      text += '\n';
    }
  }
  return text;
}

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
  parsed.oneOf[command] = {"--corpus", "--ids"};
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
