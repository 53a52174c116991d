#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/parse_error.h"
#include "app/cli/values.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/eval/needle/needle.h"
#include "backend/model/training/processes.h"
#include "backend/text/file_bytes.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval needle`, as typed.
struct NeedleOptions {
  EvalOptions eval;
  std::string haystack;
  std::string words;  ///< file of a template
  std::string mode = "easy";
  std::string lengths = "1000:32000:11";
  std::string depths = "0:100:11";
  bool printTemplate = false;
  bool force = false;
  bool json = false;
  bool csv = false;
};

constexpr const char* kNeedleRule =
    "A length N counts tokens: BOS, instruction, context and needle take N - 200; 200 are kept for the question with\n"
    "the answer's opening words, and the answer. A depth is the share of the context that stands before the needle,\n"
    "which is then moved back to the end of the sentence before (. ! or ?); at 100 % nothing stands behind it. Each\n"
    "part is cut into tokens on its own. A haystack that is too short is repeated. Scores: the answer's string in the\n"
    "greedy continuation, and the answer's mean log-probability, as its gain over the prompt of the same length where\n"
    "context stands in the needle's place. A test that ends early is taken up again by the same command from\n"
    "OUTPUT.partial.\n"
    "\n";

/// "1000,2000,4000", or "1000:32000:11": so many in equal steps.
std::vector<double> parseSteps(const std::string& option, const std::string& text) {
  constexpr std::size_t kMost = 1000;
  const auto fail = [&]() -> void {
    throw UsageError(fmt::format("{} {}: write numbers as A,B,C or FROM:TO:COUNT", option, text));
  };
  const auto number = [&](const std::string& word) {
    double value = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (problem != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) fail();
    return value;
  };
  std::vector<double> values;
  const std::vector<std::string> range = split(text, ':');
  if (range.size() == 3) {
    const double from = number(range[0]);
    const double to = number(range[1]);
    const double count = number(range[2]);
    if (!(count >= 1 && count <= static_cast<double>(kMost)) || count != std::floor(count)) fail();
    for (double n = 0; n < count; ++n) values.push_back(count == 1 ? from : from + (to - from) * n / (count - 1));
  } else if (range.size() == 1) {
    for (const std::string& word : split(text, ',')) values.push_back(number(word));
  } else {
    fail();
  }
  if (values.size() > kMost) fail();
  return values;
}

void requireAscending(const std::string& option, const std::string& text, const std::vector<double>& values) {
  if (std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end()) return;
  throw UsageError(fmt::format("{} {}: each has to be above the one before", option, text));
}

NeedleRequest makeRequest(const NeedleOptions& options, const Processes* processes) {
  NeedleRequest request;
  request.models = openModels(options.eval, processes);
  request.haystack = options.haystack;
  if (!options.words.empty()) {
    request.words =
        NeedleTemplate::from_json(read_input_bytes(options.words, "template", largest_vocabulary_file), options.words);
  }
  request.mode = needle_mode_from_string(options.mode);
  constexpr double kMostTokens = 1e9;
  for (const double length : parseSteps("--lengths", options.lengths)) {
    if (!(length >= 1 && length <= kMostTokens)) {
      throw UsageError(fmt::format("--lengths {}: {} is no number of tokens", options.lengths, length));
    }
    request.lengths.push_back(std::llround(length));
  }
  requireAscending("--lengths", options.lengths, {request.lengths.begin(), request.lengths.end()});
  for (const double percent : parseSteps("--depths", options.depths)) request.depths.push_back(percent / 100);
  requireAscending("--depths", options.depths, request.depths);
  request.output = options.eval.output;
  request.start_anew = options.force;
  return request;
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

/// The head that looks most at the needle, on average over cells.
struct BestHead {
  std::size_t index = 0;  ///< layer * H + head
  double mass = 0;
  double gate = 0;
};

BestHead bestHead(const NeedleModel& model) {
  const auto heads = static_cast<std::size_t>(model.info.layers) * static_cast<std::size_t>(model.info.heads);
  const auto cells = model.found.size();
  BestHead best;
  best.mass = -1;
  for (std::size_t head = 0; head < heads; ++head) {
    BestHead now{head, 0, 0};
    for (std::size_t cell = 0; cell < cells; ++cell) {
      now.mass += static_cast<double>(model.needle_mass[cell * heads + head]) / static_cast<double>(cells);
      now.gate += static_cast<double>(model.needle_gate[cell * heads + head]) / static_cast<double>(cells);
    }
    if (now.mass > best.mass) best = now;
  }
  return best;
}

std::string needleJson(const std::string& output, const NeedleEvaluation& evaluation) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const NeedleModel& model : evaluation.models) {
    const BestHead best = bestHead(model);
    const auto heads = static_cast<std::size_t>(model.info.heads);
    const auto found = std::count(model.found.begin(), model.found.end(), 1);
    models.push_back({{"name", model.info.name},
                      {"cells", model.found.size()},
                      {"found", found},
                      {"mean_gain", mean(model.gain())},
                      {"mean_answer_log_probability", mean(model.answer_log_probability)},
                      {"haystack_tokens", model.haystack_tokens},
                      {"best_head",
                       {{"layer", best.index / heads},
                        {"head", best.index % heads},
                        {"mean_needle_mass", best.mass},
                        {"mean_needle_gate", best.gate}}}});
  }
  return nlohmann::ordered_json{{"output", output}, {"models", models}}.dump(
             -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

/// One grid of gains a model, lengths across and depths down; an asterisk where the answer was found.
std::string needleText(const NeedleEvaluation& evaluation) {
  std::string text;
  const std::size_t depths = evaluation.depths.size();
  for (const NeedleModel& model : evaluation.models) {
    const std::vector<float> gain = model.gain();
    text += fmt::format("{}: gain (nats a token) at depth and length; * where the answer was said\n", model.info.name);
    text += fmt::format("{:>7}", "depth");
    for (const std::int64_t length : evaluation.lengths) text += fmt::format("{:>9}", length);
    text += '\n';
    for (std::size_t q = 0; q < depths; ++q) {
      text += fmt::format("{:>5.4g} %", evaluation.depths[q] * 100);
      for (std::size_t p = 0; p < evaluation.lengths.size(); ++p) {
        const std::size_t cell = p * depths + q;
        text += fmt::format("{:>8.2f}{}", gain[cell], model.found[cell] == 1 ? '*' : ' ');
      }
      text += '\n';
    }
    const BestHead best = bestHead(model);
    text += fmt::format("most attention on the needle: layer {} head {}, {:.3f} of its mass with F {:.3f} on average\n",
                        best.index / static_cast<std::size_t>(model.info.heads),
                        best.index % static_cast<std::size_t>(model.info.heads), best.mass, best.gate);
  }
  return text;
}

void checkGiven(const NeedleOptions& options) {
  std::vector<std::string> missing;
  if (options.eval.models.empty()) missing.emplace_back("--model");
  if (options.haystack.empty()) missing.emplace_back("--haystack");
  if (options.eval.output.empty()) missing.emplace_back("--output");
  if (!missing.empty()) throw UsageError(requiredText(missing) + "see foxscope eval needle --help");
  if (options.json && options.csv) throw UsageError("--csv: goes with text or JSON alone: leave out --json");
  requireHdf5Name(options.eval.output);
}

/// max_position_embeddings of a model's config.json, which is the length of its training; nothing where it is not said.
std::optional<std::int64_t> trainedLength(const OpenedModel& model) {
  const std::string file = (model.folder / "config.json").string();
  const auto config =
      nlohmann::json::parse(read_input_bytes(file, "configuration", largest_vocabulary_file), nullptr, false);
  const auto found = config.find("max_position_embeddings");
  if (found == config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

/// Says what the test will cost, and which models go beyond what they were trained on.
void announceNeedle(const NeedleRequest& request, Console& console) {
  const auto prompts = static_cast<std::int64_t>(request.depths.size()) + 1;  // one without the needle
  const auto lengths = static_cast<std::int64_t>(request.lengths.size());
  const std::int64_t tokens = prompts * std::reduce(request.lengths.begin(), request.lengths.end(), std::int64_t{0});
  const auto models = static_cast<std::int64_t>(request.models.size());
  console.note(fmt::format("{} prompts{}, {} tokens to read in all: fewer --lengths or --depths take less time",
                           count_text(prompts * lengths), models > 1 ? " for each model" : "",
                           count_text(models * tokens)));
  for (const OpenedModel& model : request.models) {
    const auto trained = trainedLength(model);
    if (!trained || request.lengths.empty() || request.lengths.back() <= *trained) continue;
    console.note(fmt::format("{}: its config.json says max_position_embeddings {}, which longer prompts exceed",
                             model.request.name, *trained));
  }
}

int evaluateNeedle(const NeedleOptions& options, const CommandContext& context, Processes* processes) {
  requireDistinct(options.eval.output, options.haystack);
  requireWritable(options.eval.output, options.force);
  const NeedleRequest request = makeRequest(options, processes);
  std::size_t turn = 0;
  NeedleEvents events;
  events.model = [&](const std::string& name) {
    context.console.setSubject(modelTurn(name, ++turn, request.models.size()));
  };
  events.note = [&](const std::string& line) { context.console.note(line); };
  events.partial = sayKept(context);
  // Said when the first prompt begins: what is wrong with models, words and text has been found by then.
  Job job = context.job();
  std::once_flag announced;
  job.report = [&, report = job.report](const Progress& progress) {
    if (progress.stage == "needle" && (processes == nullptr || processes->first())) {
      std::call_once(announced, [&] { announceNeedle(request, context.console); });
    }
    report(progress);
  };
  const auto evaluation = evaluate_needle(request, events, job, processes);
  if (processes != nullptr && !processes->first()) return endOfOthers(evaluation.has_value());
  if (!evaluation) return kInterrupted;
  write_needle_file(options.eval.output, *evaluation, {context.commandLine, ""},
                    options.force ? Overwrite::force : Overwrite::refuse);
  finish_needle(request);
  context.console.endProgress();
  if (options.json) {
    Console::write(needleJson(options.eval.output, *evaluation));
  } else if (options.csv) {
    Console::write(evaluation->csv());
  } else {
    context.console.report(needleText(*evaluation) + "written to " + options.eval.output + '\n');
  }
  return kDone;
}

}  // namespace

void addEvalNeedleCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<NeedleOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "needle", "Find a fact hidden in a long text, at every length and depth",
      "  foxscope eval needle --model fox=FOLDER --model base=FOLDER --haystack essays.txt -o needle.h5\n"
      "  foxscope eval needle --model FOLDER --haystack books.jsonl.xz --lengths 1000:6000:11 --depths 0,50,100 \\\n"
      "      -o needle.h5\n"
      "  foxscope eval needle --model FOLDER --haystack essays.txt -o needle.h5 --csv > cells.csv\n"
      "  foxscope eval needle --print-template > template.json");
  command->footer(kNeedleRule + command->get_footer());
  command
      ->add_option("--model", options->eval.models,
                   "Checkpoint folder or hub id, tested under NAME (default: its last part); repeatable")
      ->type_name("[NAME=]DIR")
      ->allow_extra_args(false);
  command
      ->add_option("--haystack", options->haystack,
                   "Text to hide the needle in: a .txt, .jsonl, .jsonl.xz or .jsonl.gz file, or a folder of such files")
      ->type_name("FILE");
  command->add_option("--template", options->words, "JSON file with the test's words (default: built in)")
      ->type_name("FILE");
  command->add_flag("--print-template", options->printTemplate, "Print the built-in words, to be changed");
  command
      ->add_option("--mode", options->mode,
                   "In easy the needle repeats the question, in standard it does not (default: easy)")
      ->type_name("easy|standard");
  command->add_option("--lengths", options->lengths, "Tokens: A,B,C or FROM:TO:COUNT (default: 1000:32000:11)")
      ->type_name("LIST");
  command->add_option("--depths", options->depths, "Percent: A,B,C or FROM:TO:COUNT (default: 0:100:11)")
      ->type_name("LIST");
  command->add_option("-o,--output", options->eval.output, "File to write (HDF5)")->type_name("NEEDLE.h5");
  addEvalRunning(*command, options->eval);
  command->add_flag("--force", options->force, "Overwrite the output, and unfinished work of other settings");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->add_flag("--csv", options->csv, "Print a line a cell, with the numbers in full");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) {
      if (options->printTemplate) {
        Console::write(NeedleTemplate::built_in().json());
        return static_cast<int>(kDone);
      }
      checkGiven(*options);
      return evaluateDistributed(context, options->eval,
                                 [&](Processes* processes) { return evaluateNeedle(*options, context, processes); });
    };
  });
}

}  // namespace foxscope::cli
