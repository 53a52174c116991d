#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/map_options.h"
#include "app/cli/model_names.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "app/figure/figure_words.h"
#include "app/figure/source_names.h"
#include "backend/agent/remote_run.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/base/plural.h"
#include "backend/eval/loss/loss_comparison.h"
#include "backend/file/run_file.h"
#include "backend/trace/run_origin.h"
#include "backend/trace/token_strings.h"

namespace foxscope::cli {
namespace {

using Json = nlohmann::ordered_json;
using enum TextTable::Align;
using TracePointer = std::shared_ptr<const Trace>;

struct CompareOptions {
  std::vector<std::string> files;
  RunCheck check = RunCheck::glance;  // losses alone are read
  std::optional<std::string> model;
  std::optional<std::string> minus;
  std::string rows;
  bool json = false;
};

/// A run, and how it is called here.
struct NamedRun {
  std::string name;
  TracePointer run;
};

/// Two runs, and what their losses differ by.
struct Compared {
  NamedRun model;
  NamedRun minus;
  LossComparison comparison;
};

std::string filesText(const CompareOptions& options) { return fmt::format("{}", fmt::join(options.files, ", ")); }

std::vector<std::string> namesOf(const std::vector<NamedRun>& runs) {
  std::vector<std::string> names;
  for (const NamedRun& run : runs) names.push_back(run.name);
  return names;
}

/// The runs of all files, wherever these lie.
std::vector<NamedRun> openAll(const CompareOptions& options) {
  std::vector<NamedRun> all;
  for (const std::string& argument : options.files) {
    const NamedModel file = parseNamedFile(argument);
    const RunFile opened = agent::open_run(file.path, options.check);
    for (const TracePointer& run : opened.traces) {
      const std::string name = figure::nameInFile(file.name, run->info().name, opened.traces.size());
      if (std::ranges::any_of(all, [&](const NamedRun& other) { return other.name == name; })) {
        throw UsageError(
            fmt::format("{0}: another file has a model {1} too: name it, as in {1}-2={0}", file.path, name));
      }
      all.push_back({name, run});
    }
  }
  return all;
}

NamedRun namedRun(const CompareOptions& options, const std::vector<NamedRun>& runs, const std::string& name) {
  const auto found = std::ranges::find_if(runs, [&](const NamedRun& run) { return run.name == name; });
  if (found != runs.end()) return *found;
  const std::vector<std::string> names = namesOf(runs);
  throw UsageError(fmt::format("{}: holds no model '{}': it holds {}{}", filesText(options), name,
                               fmt::join(names, ", "), nearest_question(name, names)));
}

/// The two runs that are asked for; of two in all, those that are not named follow.
std::pair<NamedRun, NamedRun> chooseRuns(const CompareOptions& options, const std::vector<NamedRun>& runs) {
  if (runs.size() < 2) {
    throw UsageError(
        fmt::format("{}: has one model, '{}': name another run file too, or foxscope run with two --model, "
                    "which writes both into one",
                    filesText(options), runs.front().name));
  }
  const auto named = [&](const std::string& name) { return namedRun(options, runs, name); };
  const auto theOther = [&](const NamedRun& one) { return one.run == runs.front().run ? runs.back() : runs.front(); };
  if (options.model && options.minus) return {named(*options.model), named(*options.minus)};
  if (runs.size() > 2) {
    throw UsageError(fmt::format("{}: has {} models, {}: choose two by --model A --minus B", filesText(options),
                                 runs.size(), fmt::join(namesOf(runs), ", ")));
  }
  if (options.model) return {named(*options.model), theOther(named(*options.model))};
  if (options.minus) return {theOther(named(*options.minus)), named(*options.minus)};
  return {runs.front(), runs.back()};
}

Compared compareRuns(const CompareOptions& options) {
  const auto [model, minus] = chooseRuns(options, openAll(options));
  if (model.run == minus.run) {
    throw UsageError(fmt::format("--minus {}: a model differs from itself in nothing: choose another", model.name));
  }
  for (const auto& [name, run] : {model, minus}) {
    if (run->per_token_loss().empty()) {
      throw Error(fmt::format("{}: model '{}': losses were not kept: {}", filesText(options), name,
                              losses_remedy(run->info())));
    }
    if (const auto unknown = first_unknown_loss(run->per_token_loss())) {
      throw Error(fmt::format("{}: model '{}': the loss of position {} is not a finite number: run the model again",
                              filesText(options), name, *unknown));
    }
  }
  if (const auto differ = tokens_differ(*model.run, *minus.run)) {
    const auto quoted = [](const NamedRun& run) { return NamedTrace{*run.run, "'" + run.name + "'"}; };
    throw Error(
        fmt::format("{}: {}", filesText(options),
                    differ_text(*differ, quoted(model), quoted(minus),
                                "choose models of one tokenizer, or figure perplexity, which counts by the byte")));
  }
  const Range rows = figure::parseRange("--rows", options.rows, model.run->info().length);
  return {model, minus, compare_losses(model.run->per_token_loss(), minus.run->per_token_loss(), rows)};
}

std::string jsonText(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json estimateJson(const Estimate& estimate) {
  return {{"difference", jsonNumber(estimate.value)},
          {"difference_error", jsonNumber(estimate.error)},
          {"p_value", jsonNumber(p_value(estimate))}};
}

Json tokensJson(const Compared& compared, const std::vector<TokenChange>& tokens) {
  Json list = Json::array();
  for (const TokenChange& token : tokens) {
    const std::size_t p = index_of(token.position);
    list.push_back({{"position", token.position},
                    {"token", predicted_string(*compared.model.run->tokens(), token.position)},
                    {"context", words_before(*compared.model.run->tokens(), token.position)},
                    {"loss", jsonNumber(compared.model.run->per_token_loss()[p])},
                    {"minus_loss", jsonNumber(compared.minus.run->per_token_loss()[p])},
                    {"difference", jsonNumber(token.change)}});
  }
  return list;
}

Json rangeJson(const Range& range) { return Json::array({range.begin, range.end}); }

std::string comparisonJson(const CompareOptions& options, const Compared& compared) {
  const LossComparison& comparison = compared.comparison;
  const Estimate& mean = comparison.difference.mean;
  Json json{{"path", options.files.size() == 1 ? Json(options.files.front()) : Json(options.files)},
            {"model", compared.model.name},
            {"minus", compared.minus.name},
            {"rows", rangeJson(comparison.positions)},
            {"tokens", comparison.difference.tokens},
            {"mean_loss", jsonNumber(comparison.loss)},
            {"minus_mean_loss", jsonNumber(comparison.minus)}};
  json.update(estimateJson(mean));
  json["perplexity_ratio"] = jsonNumber(comparison.difference.perplexity_factor());
  json["error_block"] = mean.over.tokens;
  json["error_blocks"] = mean.over.count;
  json["octaves"] = Json::array();
  for (const LossOctave& octave : comparison.octaves) {
    Json entry{{"rows", rangeJson(octave.positions)},
               {"mean_loss", jsonNumber(octave.loss)},
               {"minus_mean_loss", jsonNumber(octave.minus)}};
    entry.update(estimateJson(octave.difference));
    json["octaves"].push_back(std::move(entry));
  }
  json["better"] = tokensJson(compared, comparison.difference.helped);
  json["worse"] = tokensJson(compared, comparison.difference.hurt);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Whether 0 is outside the interval of 95 %; empty where there is no error.
std::string chanceText(const LossOctave& octave) {
  if (!octave.difference.over.suffice()) return "no error: too short";
  return beyond_chance(octave.difference) ? "yes" : "no";
}

/// The answer in words.
std::string verdictText(const Compared& compared) {
  const Estimate& mean = compared.comparison.difference.mean;
  if (!mean.over.suffice()) return "not known";
  if (!beyond_chance(mean)) return "no: 0 is in the 95 % interval, so this text does not tell which model is better";
  return fmt::format("yes: 0 is outside the 95 % interval, and {} predicts better",
                     (mean.value < 0 ? compared.model : compared.minus).name);
}

std::string octavesText(const Compared& compared) {
  const std::vector<TableColumn<LossOctave>> columns{
      {{"positions"},
       [](const LossOctave& octave) {
         return fmt::format("{} to {}", count_text(octave.positions.begin), count_text(octave.positions.end - 1));
       },
       left},
      {{compared.model.name}, [](const LossOctave& octave) { return fmt::format("{:.4f}", octave.loss); }},
      {{compared.minus.name}, [](const LossOctave& octave) { return fmt::format("{:.4f}", octave.minus); }},
      {{"difference"}, [](const LossOctave& octave) { return estimate_text(octave.difference, 4); }},
      {{"beyond chance"}, chanceText, left}};
  return tableText(columns, compared.comparison.octaves);
}

std::string tokensText(const Compared& compared, const std::vector<TokenChange>& tokens) {
  const auto lossOf = [](const Trace& run, const TokenChange& token) {
    return fmt::format("{:.2f}", run.per_token_loss()[index_of(token.position)]);
  };
  const std::vector<TableColumn<TokenChange>> columns{
      {{"difference"}, [](const TokenChange& token) { return fmt::format("{:+.2f}", token.change); }},
      {{compared.model.name}, [&](const TokenChange& token) { return lossOf(*compared.model.run, token); }},
      {{compared.minus.name}, [&](const TokenChange& token) { return lossOf(*compared.minus.run, token); }},
      {{"position"}, [](const TokenChange& token) { return std::to_string(token.position); }},
      {{"after"},
       [&](const TokenChange& token) { return jsonText(words_before(*compared.model.run->tokens(), token.position)); },
       left},
      {{"token"},
       [&](const TokenChange& token) {
         return jsonText(predicted_string(*compared.model.run->tokens(), token.position));
       },
       left}};
  return tableText(columns, tokens);
}

std::string comparisonText(const Compared& compared) {
  const LossComparison& comparison = compared.comparison;
  const LossChange& difference = comparison.difference;
  const std::string& model = compared.model.name;
  std::string text =
      nameValueLines({{"difference", fmt::format("{} − {}: {} nats/token over {} {}", model, compared.minus.name,
                                                 estimate_text(difference.mean, 4), count_text(difference.tokens),
                                                 plural(difference.tokens, "token"))},
                      {"losses", fmt::format("{:.4f} and {:.4f} nats/token", comparison.loss, comparison.minus)},
                      {"perplexity", fmt::format("{:.2f} and {:.2f}: × {:.4f}", std::exp(comparison.loss),
                                                 std::exp(comparison.minus), difference.perplexity_factor())},
                      {"errors", errors_text(difference.mean.over)},
                      {"beyond chance", verdictText(compared)}});
  text += '\n' + octavesText(compared);
  const auto list = [&](std::string_view word, const std::vector<TokenChange>& tokens) {
    if (tokens.empty()) return;
    text += fmt::format("\n{} predicts {}:\n", model, word) + tokensText(compared, tokens);
  };
  list("better", difference.helped);
  list("worse", difference.hurt);
  return text;
}

}  // namespace

void addCompareCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = addSubcommand(program, parsed, "compare", "Compare the losses of two models on one text",
                                    "  foxscope compare run.h5\n"
                                    "  foxscope compare run.h5 --model fox-pro --minus transformer-pro --rows 1024:\n"
                                    "  foxscope compare fox.h5 ssh://cluster/data/base.h5\n"
                                    "  foxscope compare before=old/run.h5 after=run.h5\n"
                                    "  foxscope compare run.h5 --json");
  command->footer(
      "Says the mean difference of the loss with its error over blocks of the text, the ratio of the perplexities, "
      "the\n"
      "difference by octave of position (0 to 255, 256 to 511, 512 to 1,023 and so on), and the tokens that the first "
      "model predicts better and worse than the "
      "second.\n"
      "Below 0 the first model predicts better.\n\n" +
      command->get_footer());
  command
      ->add_option("file", options->files,
                   "Run files of one text, with two models or more in all; NAME is for a file's only model")
      ->type_name("[NAME=]RUN.h5")
      ->required();
  command->add_option("--model", options->model, "First model (default: the model that was run first)")
      ->type_name("NAME");
  command->add_option("--minus", options->minus, "Second model, whose losses are subtracted (default: the other model)")
      ->type_name("NAME");
  command->add_option("--rows", options->rows, "Positions that count (default: all)")->type_name("A:B");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext&) {
      const Compared compared = compareRuns(*options);
      if (options->json) {
        Console::write(comparisonJson(*options, compared));
      } else {
        Console::print(comparisonText(compared));
      }
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace foxscope::cli
