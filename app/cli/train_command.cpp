#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/distributed.h"
#include "app/cli/interrupt.h"
#include "app/cli/output.h"
#include "app/description/number_text.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/measures.h"
#include "backend/base/plural.h"
#include "backend/train/training.h"
#include "backend/train/training_folder.h"

namespace foxscope::cli {
namespace {

/// `foxscope train`, as typed.
struct TrainOptions {
  std::string recipe;
  std::string output;
  std::string resume;
  std::string resumeOrStart;
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

/// The training that the command line asks for, and its folder.
struct TrainingOrder {
  Recipe recipe;
  std::filesystem::path output;
  bool resume = false;
};

/// Standard output of a training. log.jsonl has every step, so a training does not end with whoever reads along.
class Report {
 public:
  explicit Report(Console& console) : m_console(console) {}

  void print(const std::string& text) {
    if (m_lost) return;
    try {
      m_console.report(text);
    } catch (const OutputClosed&) {
      lose("standard output: its reader has left");
    } catch (const Error& error) {
      lose(error.what());
    }
  }

 private:
  void lose(const std::string& why) {
    m_lost = true;
    m_console.endProgress();
    m_console.note(fmt::format("{}; the training goes on, and log.jsonl has every step", why));
  }

  Console& m_console;
  bool m_lost = false;
};

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
  const std::string steps = start.first_step <= start.steps
                                ? fmt::format("steps {} to {}", start.first_step, start.steps)
                            : start.steps == 1 ? "the only step is done"
                                               : fmt::format("all {} steps are done", start.steps);
  const std::string readings =
      start.readings < 2 ? "" : fmt::format("; each is read {} times", count_text(std::llround(start.readings)));
  std::string text = fmt::format("{} parameters on {} in {}; {}, micro-batches of {} tokens{}\ndata: {}{}\n",
                                 count_text(start.parameters), start.device.name(), to_string(start.dtype), steps,
                                 start.micro_batch_tokens, processes, start.data, readings);
  if (!start.held_out.empty()) text += fmt::format("held out: {}\n", start.held_out);
  return text;
}

std::string measuresText(const TrainingMeasures& measures) {
  std::string text;
  if (measures.loss) {
    text += fmt::format("step {}: held-out loss {} over {} {}", measures.step,
                        estimate_text(measures.held_out_loss(), 4), measures.rows, plural(measures.rows, "row"));
    const ErrorGroups& over = measures.error_over;
    const bool blocks = over.kind == ErrorGroups::Kind::blocks;
    text += blocks ? " of one document" : fmt::format(" of {}", groups_text(over));
    if (!over.suffice()) text += ", too few for an error";
  }
  if (!measures.decay_times.empty()) {
    const auto [shortest, longest] = std::ranges::minmax(measures.decay_times);
    text += text.empty() ? fmt::format("step {}: ", measures.step) : "; ";
    text += fmt::format("heads forget over {} to {} tokens", tokens_text(shortest), tokens_text(longest));
  }
  return text.empty() ? text : text + '\n';
}

/// A note of how much of the disk the checkpoints will take, where that is much: weights and both moments, in float32.
void announceCheckpoints(const TrainingOrder& order, const TrainingStart& start, Console& console) {
  constexpr double kBytesOfParameter = 3 * sizeof(float);
  const double bytes = kBytesOfParameter * static_cast<double>(start.parameters);
  const KeptCheckpoints& keep = order.recipe.keep;
  const std::int64_t every = order.recipe.save_every;
  std::int64_t kept = every > 0 ? (start.steps + every - 1) / every : 1;  // by the clock: at least the last
  if (keep.newest > 0) kept = every > 0 ? std::min(kept, keep.newest) : keep.newest;
  if (static_cast<double>(kept) * bytes <= static_cast<double>(kAnnouncedFileBytes)) return;
  const std::string remedy = kept > 1 ? ": --keep last keeps one, --save-every N makes fewer" : "";
  const bool byClock = every == 0 && keep.newest == 0;
  console.note(fmt::format(
      "{} will take about {}: {} of {}{}", order.output.string(), sizeText(static_cast<double>(kept) * bytes),
      byClock ? "each checkpoint" : fmt::format("{} {}", kept, plural(kept, "checkpoint")), sizeText(bytes), remedy));
}

/// @param begun  becomes true with the first step: from then on a training that is stopped saves
TrainingEvents eventsOf(const TrainingOrder& order, const CommandContext& context, Report& report, bool speaks,
                        std::atomic<bool>& begun) {
  TrainingEvents events;
  const std::string goOn = fmt::format("go on with foxscope train --resume {}", order.output.string());
  events.start = [&context, &report, &begun, &order, speaks, goOn](const TrainingStart& start) {
    begun = true;
    if (speaks && start.first_step <= start.steps) announceCheckpoints(order, start, context.console);
    if (speaks) context.interrupt.say("ended at once: what was not saved is lost, " + goOn);
    context.console.endProgress();
    report.print(startText(start));
  };
  events.step = [&report, secondsOfStep = 0.0](const TrainingStep& step, std::int64_t steps,
                                               std::int64_t memory) mutable {
    secondsOfStep = secondsOfStep == 0 ? step.seconds : 0.9 * secondsOfStep + 0.1 * step.seconds;  // a moving mean
    report.print(stepText(step, steps, memory, secondsOfStep * static_cast<double>(steps - step.step)));
  };
  events.measured = [&context, &report](const TrainingMeasures& measures) {
    context.console.endProgress();
    report.print(measuresText(measures));
  };
  events.saved = [&context](const std::filesystem::path& checkpoint) {
    context.console.detail(fmt::format("saved {}", checkpoint.string()));
  };
  events.note = [&context](std::string_view note) { context.console.note(note); };
  return events;
}

// The message for a training that was stopped: what is kept and how to go on.
std::string interruptedText(const TrainingOrder& order, const std::optional<TrainingResult>& result) {
  const std::string goOn = fmt::format("go on with foxscope train --resume {}", order.output.string());
  if (result)
    return fmt::format("interrupted: {} {} done and saved, {}", result->steps,
                       result->steps == 1 ? "step is" : "steps are", goOn);
  return TrainingFolder::is(order.output) ? "interrupted before a step was done, " + goOn
                                          : "interrupted before a step was done, nothing is written";
}

int carryOut(const TrainingOrder& order, const CommandContext& context, Processes* processes) {
  const bool first = processes == nullptr || processes->first();
  Report report(context.console);
  std::atomic<bool> begun = false;
  const TrainingEvents events = eventsOf(order, context, report, first, begun);
  context.interrupt.waitForWork();
  const std::stop_callback told(context.stop, [&] {
    if (!begun) return;  // nothing will be saved, and what is said at the end says so
    context.console.note(
        "interrupted: the step at hand is finished and saved; the same signal again, after two seconds, ends at once");
  });
  const auto result = train(order.recipe, order.output, order.resume, events, context.job(), processes);
  const bool finished = result && result->finished;
  if (!first) return finished ? kDone : kInterrupted;
  if (!finished) {
    context.interrupt.say(interruptedText(order, result));
    return kInterrupted;
  }
  report.print(fmt::format("{} {}, the last checkpoint is {}\n", result->steps, plural(result->steps, "step"),
                           result->checkpoint.string()));
  return kDone;
}

TrainingOrder toGoOn(const std::filesystem::path& output) {
  std::error_code missing;
  if (std::filesystem::exists(output / "checkpoints", missing) && TrainingFolder::is_free(output)) {
    throw Error(fmt::format("{}: holds no training yet: begin it with -o {}", output.string(), output.string()));
  }
  TrainingFolder::require(output);
  return {read_recipe(TrainingFolder(output).recipe(), {}), output, true};
}

TrainingOrder orderOf(const TrainOptions& options) {
  const std::vector<RecipeSetting> settings = settingsOf(options);
  if (!options.resume.empty()) {
    if (!options.output.empty() || !options.resumeOrStart.empty() || !options.recipe.empty() || !settings.empty()) {
      throw UsageError("--resume goes on as recipe.json in its folder says: leave other options out");
    }
    return toGoOn(options.resume);
  }
  constexpr const char* kFolder = "a folder to write: give one of -o OUT, --resume OUT and --resume-or-start OUT";
  if (options.output.empty() && options.resumeOrStart.empty()) {
    (void)read_recipe(options.recipe, settings, {kFolder});  // tells what else is missing
  }
  if (!options.output.empty() && !options.resumeOrStart.empty()) {
    throw UsageError(fmt::format("train needs {}", kFolder));
  }
  if (!options.output.empty()) return {read_recipe(options.recipe, settings), options.output, false};

  TrainingOrder order = {read_recipe(options.recipe, settings), options.resumeOrStart,
                         TrainingFolder::is(options.resumeOrStart)};
  const std::filesystem::path begunWith = TrainingFolder(order.output).recipe();
  if (order.resume && !is_same_training(order.recipe, read_recipe(begunWith, {}))) {
    throw Error(
        fmt::format("{}: is the recipe of another training than the options name: go on with that one by "
                    "--resume {}, or choose another folder",
                    begunWith.string(), order.output.string()));
  }
  return order;
}

int runTraining(const TrainOptions& options, const CommandContext& context) {
  const TrainingOrder order = orderOf(options);
  const std::string goOn = fmt::format("go on with foxscope train --resume {}", order.output.string());
  return runDistributed(context, order.recipe.device, goOn,
                        [&](Processes* processes) { return carryOut(order, context, processes); });
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

void addTrainCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "train", "Train a model, or go on with a training",
      "  foxscope train --recipe resources/recipes/fox-pro-1m.json --data book.txt -o out/fox\n"
      "  foxscope train --config config.json --tokenizer FOLDER --data books/ --max-tokens 65536000 --lr 0.002 -o OUT\n"
      "  foxscope train --resume OUT\n"
      "\n"
      "OUT holds recipe.json, log.jsonl (a line a step), evaluation.jsonl and checkpoints/step-NNNNNN, folders that\n"
      "every other command opens. Ctrl+C, SIGTERM, SIGHUP and SIGUSR1 save and end; --resume goes on as if nothing "
      "had\n"
      "happened. A job that is queued again and again writes --resume-or-start OUT for -o OUT.");
  command->add_option("-o,--output", options->output, "Folder to write; must be new or empty")->type_name("OUT");
  command->add_option("--resume", options->resume, "Go on with a training in its folder")->type_name("OUT");
  command
      ->add_option("--resume-or-start", options->resumeOrStart,
                   "Begin as the other options say, or go on where that training has begun")
      ->type_name("OUT");
  command
      ->add_option("--recipe", options->recipe,
                   "JSON with any of the options below, _ for - in their names; an option wins over it")
      ->type_name("FILE");
  for (const RecipeKey& key : recipe_keys()) addRecipeOption(*command, key, *options);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return runTraining(*options, context); };
  });
}

}  // namespace foxscope::cli
