#include <cstdint>
#include <limits>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/running_options.h"
#include "app/cli/values.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/generate/generate.h"
#include "backend/text/file_bytes.h"
#include "backend/text/read_text.h"
#include "backend/text/token_ids.h"
#include "backend/text/tokenizer.h"

namespace foxscope::cli {
namespace {

/// `foxscope generate`, as typed.
struct GenerateOptions : RunningOptions {
  std::string model;
  std::optional<std::string> text;  ///< file, "-" for standard input
  std::optional<std::string> prompt;
  std::optional<std::string> ids;
  std::int64_t tokens = 100;
  double temperature = 0;
  std::uint64_t seed = 0;
  bool json = false;
};

RunInput readInput(const GenerateOptions& options, const OpenedModel& model) {
  RunInput input;
  if (options.ids) {
    input.name = *options.ids;
    const std::string content = read_input_bytes(*options.ids, "file of token ids", largest_vocabulary_file);
    TokenIds ids = read_token_ids(content, input.name, model.config.vocabulary_size);
    input.ids = std::move(ids.ids);
    input.labels = std::move(ids.labels);
    return input;
  }
  Text text;
  if (options.prompt) {
    input.name = "--prompt";
    text.content = *options.prompt;
    if (const auto offset = find_invalid_utf8(text.content)) {
      throw UsageError(fmt::format("--prompt: byte {} is not UTF-8: give the text in a file with --text", *offset));
    }
  } else {
    input.name = *options.text;
    text.content = read_text(*options.text, InvalidUtf8::refuse);
  }
  input.text = std::make_shared<const Text>(std::move(text));
  return input;
}

void checkInput(const GenerateOptions& options) {
  const int inputs = static_cast<int>(options.text.has_value()) + static_cast<int>(options.prompt.has_value()) +
                     static_cast<int>(options.ids.has_value());
  if (inputs != 1) {
    throw UsageError("generate needs one input: give either --prompt STRING, --text FILE or --ids FILE");
  }
}

// The first token comes with the prompt; nothing where there is no other.
std::optional<double> tokensPerSecond(const Generation& generation) {
  if (generation.ids.size() < 2) return std::nullopt;
  return static_cast<double>(generation.ids.size() - 1) / generation.token_seconds;
}

std::string generationJson(const GenerateOptions& options, const OpenedModel& model, const Generation& generation) {
  nlohmann::ordered_json held = nlohmann::ordered_json::array();
  auto first = generation.held_keys.begin();
  for (int layer = 0; layer < model.config.layers; ++layer) {
    const auto last = first + model.config.heads_of(layer);
    held.push_back(std::vector<std::int64_t>(first, last));
    first = last;
  }
  nlohmann::ordered_json summary = {{"model", options.model},
                                    {"text", generation.text},
                                    {"ids", generation.ids},
                                    {"log_probabilities", generation.log_probability},
                                    {"prompt_ids", generation.prompt},
                                    {"temperature", options.temperature},
                                    {"seed", options.seed},
                                    {"tokens_per_second", nullptr},
                                    {"seconds",
                                     {{"load", generation.load_seconds},
                                      {"prompt", generation.prompt_seconds},
                                      {"tokens", generation.token_seconds}}},
                                    {"held_keys", held},
                                    {"pruning_tolerance", model.options.pruning_tolerance},
                                    {"device", model.device.name()},
                                    {"dtype", to_string(model.dtype)}};
  if (const auto rate = tokensPerSecond(generation)) summary["tokens_per_second"] = *rate;
  return summary.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string generationDetail(const Generation& generation) {
  std::int64_t held = 0;
  for (const std::int64_t keys : generation.held_keys) held += keys;
  return fmt::format("{} {} read in {}, {} added in {} ({:.0f} tokens/s); keys held: {} a head on average",
                     count_text(std::ssize(generation.prompt)), plural(std::ssize(generation.prompt), "token"),
                     durationText(generation.prompt_seconds),
                     count_text(static_cast<std::int64_t>(generation.ids.size())),
                     durationText(generation.token_seconds), tokensPerSecond(generation).value_or(0.0),
                     count_text(held / static_cast<std::int64_t>(generation.held_keys.size())));
}

int runGenerate(const GenerateOptions& options, const CommandContext& context) {
  checkInput(options);
  const OpenedModel model = Engine().open(modelRequest(options, {"", options.model}));
  const GenerateRequest request{readInput(options, model), options.tokens, {options.temperature, options.seed}};
  Job job = context.job();
  std::function<void(std::string_view)> give;
  if (!options.json) {
    // Once text comes, it is the progress.
    job.report = [&context](const Progress& progress) {
      if (progress.stage == "generate") {
        context.console.endProgress();
      } else {
        context.console.progress(progress);
      }
    };
    give = [](std::string_view text) { Console::write(text); };
  }
  const auto generation = generate(model, request, give, job);
  if (!generation) return kInterrupted;
  context.console.endProgress();
  if (options.json) {
    Console::write(generationJson(options, model, *generation));
  } else {
    if (generation->text.empty() && !generation->ids.empty()) {
      throw Error(fmt::format("{}: has no tokenizer to write text with: use --json for token ids", options.model));
    }
    Console::write("\n");
  }
  for (const std::string& note : model.config.notes) context.console.note(note);
  context.console.detail(generationDetail(*generation));
  return kDone;
}

}  // namespace

void addGenerateCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "generate", "Continue a text",
      "  foxscope generate --model resources/models/fox-pro-12m --prompt 'It was a dark night, and'\n"
      "  foxscope generate --model FOLDER --text chapter.txt --max-tokens 300 --temperature 0.8 --seed 7\n"
      "  foxscope generate --model FOLDER --ids ids.json --json\n"
      "\n"
      "The continuation goes to standard output as it is made, and a line feed after it.");
  command->add_option("--model", options->model, "Checkpoint folder or hub id")->type_name("DIR")->required();
  command->add_option("--prompt", options->prompt, "Text to continue; an empty one is BOS alone")->type_name("STRING");
  command->add_option("--text", options->text, "File with the text to continue, - for standard input")
      ->type_name("FILE");
  command
      ->add_option(
          "--ids", options->ids,
          "File with the token ids to continue: a JSON array, or {\"input_ids\": [...], \"labels\": [...]}, whose "
          "input_ids are read unchanged")
      ->type_name("FILE");
  command->add_option("--max-tokens,--tokens", options->tokens, "Number of tokens to add (default: 100)")
      ->type_name("N");
  command
      ->add_option("--temperature", options->temperature,
                   "Draw from the probabilities to the power 1/T (default: 0, always the likeliest token)")
      ->type_name("T");
  command->add_option("--seed", options->seed, "Seed of the draws; equal seeds give equal texts (default: 0)")
      ->type_name("S")
      ->check([](const std::string& word) { return tooLarge(word, std::numeric_limits<std::uint64_t>::max()); });
  addRunningOptions(*command, *options, "the sequence",
                    "Share of a row's attention that may be left out: keys that the gate has brought below it for good "
                    "leave the cache");
  addInterventions(*command, *options, "Change gates or outputs as in run, but not to their mean; repeatable");
  command->add_flag("--json", options->json, "Print text, token ids, log-probabilities and figures as JSON");
  parsed.oneOf[command] = {"--prompt", "--text", "--ids"};
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return runGenerate(*options, context); };
  });
}

}  // namespace foxscope::cli
