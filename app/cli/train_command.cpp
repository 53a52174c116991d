#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/together.h"
#include "app/description/number_text.h"
#include "backend/base/error.h"
#include "backend/base/measures.h"
#include "backend/train/training.h"
#include "backend/train/training_folder.h"

namespace foxscope::cli {
namespace {

/// `foxscope train`, as typed.
struct TrainOptions {
  std::string recipe;
  std::string output;
  std::string resume;
  std::map<std::string, std::vector<std::string>> words;  ///< by key of the recipe
  std::map<std::string, bool> flags;
};

std::vector<RecipeSetting> settingsOf(const TrainOptions& options) {
  std::vector<RecipeSetting> settings;
  for (const auto& [key, words] : options.words) {
    if (!words.empty()) settings.push_back({key, words});
  }
  for (const auto& [key, given] : options.flags) {
    if (given) settings.push_back({key, {}});
  }
  return settings;
}

// "1.58M", "820k", "5.4k".
std::string rateText(double rate) {
  if (rate >= 1e6) return fmt::format("{:.2f}M", rate / 1e6);
  if (rate >= 1e5) return fmt::format("{:.0f}k", rate / 1e3);
  if (rate >= 1e3) return fmt::format("{:.1f}k", rate / 1e3);
  return fmt::format("{:.0f}", rate);
}

std::string stepText(const TrainingStep& step, std::int64_t steps, std::int64_t memory, double secondsLeft) {
  std::string text = fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {} tokens/s", step.step, steps,
                                 step.loss, step.gradient_norm, step.learning_rate, rateText(step.tokens_per_second));
  if (step.mfu)
    text += fmt::format("  MFU {:.1f} % ({:.1f} without what was skipped)", 100 * *step.mfu, 100 * *step.mfu_pruned);
  if (memory > 0) text += fmt::format("  {:.1f} GiB", gibibytes(memory));
  if (step.step < steps) text += fmt::format("  {} left", durationText(secondsLeft));
  return text + '\n';
}

std::string startText(const TrainingStart& start) {
  const std::string processes = start.processes == 1 ? "" : fmt::format(" in each of {} processes", start.processes);
  std::string text = fmt::format("{} parameters on {} in {}; steps {} to {}, micro-batches of {} tokens{}\ndata: {}\n",
                                 countText(start.parameters), start.device.name(), to_string(start.dtype),
                                 start.first_step, start.steps, start.micro_batch_tokens, processes, start.data);
  if (!start.held_out.empty()) text += fmt::format("held out: {}\n", start.held_out);
  return text;
}

std::string measuresText(const TrainingMeasures& measures) {
  std::string text;
  if (measures.loss) {
    text += fmt::format("step {}: held-out loss {:.4f}", measures.step, *measures.loss);
    if (measures.loss_error) text += fmt::format(" +- {:.4f}", *measures.loss_error);
    text += fmt::format(" over {} rows", measures.rows);
  }
  if (!measures.decay_times.empty()) {
    const auto [shortest, longest] = std::ranges::minmax(measures.decay_times);
    text += text.empty() ? fmt::format("step {}: ", measures.step) : "; ";
    text += fmt::format("heads forget over {:.3g} to {:.3g} tokens", shortest, longest);
  }
  return text.empty() ? text : text + '\n';
}

int runRecipe(const Recipe& recipe, const std::filesystem::path& output, bool resume, const Session& session,
              Processes* processes) {
  double secondsOfStep = 0;  // a moving mean
  TrainingEvents events;
  events.start = [&](const TrainingStart& start) {
    session.console.endProgress();
    session.console.report(startText(start));
  };
  events.step = [&](const TrainingStep& step, std::int64_t steps, std::int64_t memory) {
    secondsOfStep = secondsOfStep == 0 ? step.seconds : 0.9 * secondsOfStep + 0.1 * step.seconds;
    session.console.report(stepText(step, steps, memory, secondsOfStep * static_cast<double>(steps - step.step)));
  };
  events.measured = [&](const TrainingMeasures& measures) {
    session.console.endProgress();
    session.console.report(measuresText(measures));
  };
  events.saved = [&](const std::filesystem::path& checkpoint) {
    session.console.detail(fmt::format("saved {}", checkpoint.string()));
  };
  events.note = [&](std::string_view note) { session.console.note(note); };

  session.interrupt.waitForWork();
  const std::stop_callback told(session.stop, [&] {
    session.console.note("interrupted: the step at hand is finished and saved; once more ends at once");
  });
  const auto result = train(recipe, output, resume, events, session.job(), processes);
  if (processes != nullptr && !processes->first()) return result && result->finished ? kDone : kInterrupted;
  if (!result) return kInterrupted;
  if (!result->finished) {
    session.interrupt.say(fmt::format("interrupted: {} steps are done and saved, go on with foxscope train --resume {}",
                                      result->steps, output.string()));
    return kInterrupted;
  }
  session.console.report(
      fmt::format("{} steps, the last checkpoint is {}\n", result->steps, result->checkpoint.string()));
  return kDone;
}

int runTraining(const TrainOptions& options, const Session& session) {
  const std::vector<RecipeSetting> settings = settingsOf(options);
  Recipe recipe;
  const bool resume = !options.resume.empty();
  const std::filesystem::path output = resume ? options.resume : options.output;
  if (resume) {
    if (!options.output.empty() || !options.recipe.empty() || !settings.empty()) {
      throw UsageError("--resume goes on as recipe.json in its folder says: leave other options out");
    }
    if (!TrainingFolder::is(output)) {
      throw Error(
          fmt::format("{}: is no folder of a training: it has no recipe.json and checkpoints", output.string()));
    }
    recipe = read_recipe(TrainingFolder(output).recipe(), {});
  } else {
    if (options.output.empty()) throw UsageError("train needs a folder to write: give -o OUT, or --resume OUT");
    recipe = read_recipe(options.recipe, settings);
  }

  const std::string goOn = fmt::format("go on with foxscope train --resume {}", output.string());
  return workTogether(session, recipe.device, goOn,
                      [&](Processes* processes) { return runRecipe(recipe, output, resume, session, processes); });
}

void addRecipeOption(CLI::App& command, const RecipeKey& key, TrainOptions& options) {
  const std::string name = option_name(key.name);
  if (key.value == RecipeValue::flag) {
    command.add_flag(name, options.flags[key.name], key.help);
    return;
  }
  CLI::Option* option = command.add_option(name, options.words[key.name], key.help)->type_name(key.type);
  if (key.value == RecipeValue::numbers) {
    option->expected(2);
  } else {
    option->expected(1);
    if (key.value == RecipeValue::texts) option->expected(1, CLI::detail::expected_max_vector_size);
  }
}

}  // namespace

void addTrainCommand(CLI::App& program, Selection& selection) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = addSubcommand(
      program, selection, "train", "Train a model, or go on with a training",
      "  foxscope train --recipe resources/recipes/fox-pro-1m.json --data book.txt -o out/fox\n"
      "  foxscope train --config config.json --tokenizer FOLDER --data books/ --max-tokens 65536000 --lr 0.002 -o OUT\n"
      "  foxscope train --resume OUT\n"
      "\n"
      "OUT holds recipe.json, log.jsonl (a line a step), evaluation.jsonl and checkpoints/step-NNNNNN, folders that\n"
      "every other command opens. Ctrl+C saves and ends; --resume goes on as if nothing had happened.");
  command->add_option("-o,--output", options->output, "Folder to write; must be new or empty")->type_name("OUT");
  command->add_option("--resume", options->resume, "Go on with a training in its folder")->type_name("OUT");
  command
      ->add_option("--recipe", options->recipe,
                   "JSON with any of the options below, _ for - in their names; an option wins over it")
      ->type_name("FILE");
  for (const RecipeKey& key : recipe_keys()) addRecipeOption(*command, key, *options);
  command->callback([options, &selection] {
    selection.action = [options](const Session& session) { return runTraining(*options, session); };
  });
}

}  // namespace foxscope::cli
