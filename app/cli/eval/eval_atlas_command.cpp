#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/console.h"
#include "app/cli/eval/atlas_report.h"
#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/eval/atlas/atlas.h"
#include "backend/eval/atlas/atlas_merge.h"
#include "backend/eval/atlas/atlas_window.h"
#include "backend/model/training/processes.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval atlas`, as typed.
struct AtlasOptions : EvalOptions {
  /// Rows, shifts of the gate and places are drawn too.
  AtlasOptions() { seedOfIds = true; }

  std::vector<std::string> merged;
  std::optional<std::int64_t> maxTokens;
  std::int64_t passages = 32;
  std::string rows;  ///< a number, or "all"; empty: kDefaultRows
  bool force = false;
};

constexpr std::int64_t kMostPassages = 1000;

constexpr const char* kAtlasMeaning =
    "Windows are chosen as `foxscope eval loss` chooses them, in each --corpus by itself. For every head the file has\n"
    "the numbers of `foxscope eval heads`, the mean of log f by the token that is read, where its resets (f < 1/2)\n"
    "fall against chance, the passages in which it forgets most and reaches farthest, and how alike heads are. Chance\n"
    "is the same gate, shifted around the window by 200 random numbers of positions. A run that ends early is taken "
    "up\n"
    "again by the same command from OUTPUT.partial. --merge makes one atlas of several, which equals that of one run\n"
    "over all their corpora.\n"
    "\n";

/// AtlasShape::rows.
std::int64_t rowsOf(const AtlasOptions& options) {
  if (options.rows.empty()) return kDefaultRows;
  if (options.rows == "all") return AtlasShape::kAllRows;
  std::int64_t rows = 0;
  const char* const end = options.rows.data() + options.rows.size();
  const auto [read, error] = std::from_chars(options.rows.data(), end, rows);
  if (error != std::errc() || read != end || rows < 0 || rows % 2 != 0) {
    throw UsageError(fmt::format("--rows {}: give an even number, 0 for none, or all", options.rows));
  }
  return rows;
}

void checkAtlasOptions(const AtlasOptions& options) {
  checkEvalOptions("eval atlas", options);
  if (options.passages < 1 || options.passages > kMostPassages) {
    throw UsageError(fmt::format("--passages {}: use a number from 1 to {}", options.passages, kMostPassages));
  }
  if (options.length && *options.length < 2) {
    throw UsageError(fmt::format("--length {}: the first gate of a window is in no F: use 2 or more", *options.length));
  }
  if (options.maxTokens && options.windows) {
    throw UsageError("--max-tokens and --windows exclude each other: choose one");
  }
  const std::int64_t length = options.length.value_or(WindowOptions{}.length);
  const std::int64_t rows = std::max<std::int64_t>(0, rowsOf(options));
  if (const std::int64_t most = kMostSampled / length; rows < length && rows > most) {
    throw UsageError(fmt::format(
        "--length {}: of windows of so many tokens at most {} rows of attention can be drawn, not {}: use a "
        "smaller --length, or --rows {}",
        length, most / 2 * 2, rows, most / 2 * 2));
  }
  if (options.maxTokens && *options.maxTokens < length) {
    throw UsageError(fmt::format("--max-tokens {}: a window alone has {} tokens: use more, or a smaller --length",
                                 *options.maxTokens, length));
  }
}

void writeAtlas(const AtlasOptions& options, const Atlas& atlas, const CommandContext& context) {
  write_atlas_file(options.output, atlas, {context.commandLine, ""},
                   options.force ? Overwrite::force : Overwrite::refuse);
}

void reportAtlas(const AtlasOptions& options, const Atlas& atlas, const CommandContext& context) {
  context.console.endProgress();
  context.console.report(atlasText(atlas) + "written to " + options.output + '\n');
}

int makeAtlas(const AtlasOptions& options, const CommandContext& context, Processes* processes) {
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);
  AtlasRequest request;
  request.models = openModels(options, processes);
  request.inputs = evalInputs(options);
  if (options.maxTokens) {
    for (EvaluationInput& input : request.inputs) {
      input.windows.windows = *options.maxTokens / input.windows.length;
      input.ids.windows = input.windows.windows;
    }
  }
  request.passages = options.passages;
  request.rows = rowsOf(options);
  request.output = options.output;
  request.start_anew = options.force;
  std::size_t turn = 0;
  AtlasEvents events;
  events.model = [&](const std::string& name) {
    context.console.setSubject(modelTurn(name, ++turn, request.models.size()));
  };
  events.partial = sayKept(context);
  events.read = [&](const std::string& name, std::int64_t tokens, double seconds) {
    context.console.detail(fmt::format("{}: {} tokens in {:.1f} s, {} tokens/s", name, count_text(tokens), seconds,
                                       count_text(std::llround(static_cast<double>(tokens) / seconds))));
  };
  events.note = [&](const std::string& text) { context.console.note(text); };
  const auto atlas = evaluate_atlas(request, events, context.job(), processes);
  if (processes != nullptr && !processes->first()) return endOfOthers(atlas.has_value());
  if (!atlas) return kInterrupted;
  writeAtlas(options, *atlas, context);
  finish_atlas(request);
  reportAtlas(options, *atlas, context);
  return kDone;
}

int mergeAtlases(const AtlasOptions& options, const CommandContext& context) {
  if (!options.models.empty() || !options.corpora.empty() || !options.ids.empty() || options.length ||
      options.windows || options.seed || options.maxTokens || !options.rows.empty()) {
    throw UsageError("--merge: models, corpora and windows are those of the atlases: leave the other options out");
  }
  if (options.merged.size() < 2) throw UsageError("--merge: name two atlases or more");
  for (const std::string& path : options.merged) requireDistinct(options.output, path);
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);
  AtlasMerge merge(Atlas::open(options.merged.front()), options.merged.front());
  for (std::size_t n = 1; n < options.merged.size(); ++n) {
    if (context.stop.stop_requested()) return kInterrupted;
    merge.add(Atlas::open(options.merged[n]), options.merged[n]);
    context.job().tell({static_cast<std::int64_t>(n + 1), std::ssize(options.merged), "atlases", "merging"});
  }
  const Atlas atlas = std::move(merge).finish();
  writeAtlas(options, atlas, context);
  reportAtlas(options, atlas, context);
  return kDone;
}

}  // namespace

void addEvalAtlasCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<AtlasOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "atlas", "What every head forgets over a corpus: tokens, resets, passages, alike heads",
      "  foxscope eval atlas --model FOLDER --corpus books.jsonl.xz -o atlas.h5\n"
      "  foxscope eval atlas --model fox=FOLDER --corpus books/ --corpus code.jsonl --length 4096 --windows 500 \\\n"
      "      -o atlas.h5\n"
      "  foxscope eval atlas --merge part-0.h5 part-1.h5 -o atlas.h5");
  command->footer(kAtlasMeaning + command->get_footer());
  addEvalInput(*command, *options, Corpora::several);
  command->get_option("--model")->required(false);
  parsed.oneOf[command] = {"--corpus", "--ids", "--merge"};
  command
      ->add_option("--max-tokens", options->maxTokens,
                   "Instead of --windows: as many windows of each corpus as have so many tokens together")
      ->type_name("T");
  command
      ->add_option("--rows", options->rows,
                   "Rows of attention that are drawn in each window (default: 64); 0: gates alone; all: every row, and "
                   "the split into content and decay")
      ->type_name("N|all");
  command->add_option("--passages", options->passages, "Passages of each kind and head (default: 32)")->type_name("K");
  command
      ->add_option("--merge", options->merged,
                   "Instead of models and a corpus: atlases of one command over different "
                   "corpora")
      ->type_name("ATLAS.h5");
  command->add_option("-o,--output", options->output, "File to write (HDF5)")->type_name("ATLAS.h5")->required();
  addEvalRunning(*command, *options);
  command->add_flag("--force", options->force, "Overwrite the output, and unfinished work of other settings");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) {
      if (!options->merged.empty()) return mergeAtlases(*options, context);
      if (options->models.empty()) throw UsageError("eval atlas needs models: give --model FOLDER, or --merge");
      checkAtlasOptions(*options);
      return evaluateDistributed(context, *options,
                                 [&](Processes* processes) { return makeAtlas(*options, context, processes); });
    };
  });
}

}  // namespace foxscope::cli
