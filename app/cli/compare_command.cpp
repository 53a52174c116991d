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
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "app/figure/figure_words.h"
#include "backend/agent/remote_run.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"
#include "backend/eval/loss/loss_comparison.h"
#include "backend/file/run_file.h"
#include "backend/trace/losses_remedy.h"
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

/// Two runs, and what their losses differ by.
struct Compared {
  TracePointer model;
  TracePointer minus;
  LossComparison comparison;
};

std::string filesText(const CompareOptions& options) { return fmt::format("{}", fmt::join(options.files, ", ")); }

/// The runs of all files, wherever these lie.
RunFile openAll(const CompareOptions& options) {
  RunFile all;
  for (const std::string& file : options.files) {
    RunFile opened = agent::open_run(file, options.check);
    for (const TracePointer& run : opened.traces) {
      const std::string& name = run->info().name;
      const bool known = std::ranges::any_of(all.traces, [&](const auto& other) { return other->info().name == name; });
      if (known) {
        throw UsageError(
            fmt::format("{}: another file has a model {} too: run one of them with --model NAME=DIR", file, name));
      }
      all.traces.push_back(run);
    }
  }
  return all;
}

/// The two runs that are asked for; of two in all, those that are not named follow.
std::pair<TracePointer, TracePointer> chooseRuns(const CompareOptions& options, const RunFile& file) {
  if (file.traces.size() < 2) {
    throw UsageError(
        fmt::format("{}: has one model, '{}': name another run file too, or foxscope run with two --model, "
                    "which writes both into one",
                    filesText(options), file.traces.front()->info().name));
  }
  const std::vector<TracePointer>& runs = file.traces;
  const auto theOther = [&](const TracePointer& one) { return one == runs.front() ? runs.back() : runs.front(); };
  if (options.model && options.minus) return {file.trace(options.model), file.trace(options.minus)};
  if (runs.size() > 2) {
    std::string names;
    for (const TracePointer& run : runs) names += (names.empty() ? "" : ", ") + run->info().name;
    throw UsageError(fmt::format("{}: has {} models, {}: choose two by --model A --minus B", filesText(options),
                                 runs.size(), names));
  }
  if (options.model) return {file.trace(options.model), theOther(file.trace(options.model))};
  if (options.minus) return {theOther(file.trace(options.minus)), file.trace(options.minus)};
  return {runs.front(), runs.back()};
}

Compared compareRuns(const CompareOptions& options) {
  const RunFile file = openAll(options);
  const auto [model, minus] = chooseRuns(options, file);
  if (model == minus) {
    throw UsageError(
        fmt::format("--minus {}: a model differs from itself in nothing: choose another", model->info().name));
  }
  for (const TracePointer& run : {model, minus}) {
    if (run->per_token_loss().empty()) {
      throw Error(fmt::format("{}: model '{}': losses were not kept: {}", filesText(options), run->info().name,
                              losses_remedy(run->info())));
    }
    if (const auto unknown = first_unknown_loss(run->per_token_loss())) {
      throw Error(fmt::format("{}: model '{}': the loss of position {} is not a finite number: run the model again",
                              filesText(options), run->info().name, *unknown));
    }
  }
  if (model->tokens()->id != minus->tokens()->id) {
    throw Error(fmt::format(
        "{}: '{}' and '{}' read different tokens, and losses are compared token by token: choose models of one "
        "tokenizer, or figure perplexity, which counts by the byte",
        filesText(options), model->info().name, minus->info().name));
  }
  const Range rows = figure::parseRange("--rows", options.rows, model->info().length);
  return {model, minus, compare_losses(model->per_token_loss(), minus->per_token_loss(), rows)};
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
                    {"token", predicted_string(*compared.model->tokens(), token.position)},
                    {"context", words_before(*compared.model->tokens(), token.position)},
                    {"loss", jsonNumber(compared.model->per_token_loss()[p])},
                    {"minus_loss", jsonNumber(compared.minus->per_token_loss()[p])},
                    {"difference", jsonNumber(token.change)}});
  }
  return list;
}

Json rangeJson(const Range& range) { return Json::array({range.begin, range.end}); }

std::string comparisonJson(const CompareOptions& options, const Compared& compared) {
  const LossComparison& comparison = compared.comparison;
  const Estimate& mean = comparison.difference.mean;
  Json json{{"path", options.files.size() == 1 ? Json(options.files.front()) : Json(options.files)},
            {"model", compared.model->info().name},
            {"minus", compared.minus->info().name},
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
                     (mean.value < 0 ? compared.model : compared.minus)->info().name);
}

std::string octavesText(const Compared& compared) {
  const std::vector<TableColumn<LossOctave>> columns{
      {{"positions"},
       [](const LossOctave& octave) {
         return fmt::format("{} to {}", count_text(octave.positions.begin), count_text(octave.positions.end - 1));
       },
       left},
      {{compared.model->info().name}, [](const LossOctave& octave) { return fmt::format("{:.4f}", octave.loss); }},
      {{compared.minus->info().name}, [](const LossOctave& octave) { return fmt::format("{:.4f}", octave.minus); }},
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
      {{compared.model->info().name}, [&](const TokenChange& token) { return lossOf(*compared.model, token); }},
      {{compared.minus->info().name}, [&](const TokenChange& token) { return lossOf(*compared.minus, token); }},
      {{"position"}, [](const TokenChange& token) { return std::to_string(token.position); }},
      {{"after"},
       [&](const TokenChange& token) { return jsonText(words_before(*compared.model->tokens(), token.position)); },
       left},
      {{"token"},
       [&](const TokenChange& token) { return jsonText(predicted_string(*compared.model->tokens(), token.position)); },
       left}};
  return tableText(columns, tokens);
}

std::string comparisonText(const Compared& compared) {
  const LossComparison& comparison = compared.comparison;
  const LossChange& difference = comparison.difference;
  const std::string& model = compared.model->info().name;
  std::string text =
      nameValueLines({{"difference", fmt::format("{} − {}: {} nats/token over {} {}", model,
                                                 compared.minus->info().name, estimate_text(difference.mean, 4),
                                                 count_text(difference.tokens), plural(difference.tokens, "token"))},
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
                                    "  foxscope compare run.h5 --json");
  command->footer(
      "Says the mean difference of the loss with its error over blocks of the text, the ratio of the perplexities, "
      "the\n"
      "difference by octave of position (0 to 255, 256 to 511, 512 to 1,023 and so on), and the tokens that the first "
      "model predicts better and worse than the "
      "second.\n"
      "Below 0 the first model predicts better.\n\n" +
      command->get_footer());
  command->add_option("file", options->files, "Run files of one text, with two models or more in all")
      ->type_name("RUN.h5")
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
