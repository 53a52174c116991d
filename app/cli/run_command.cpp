#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/console.h"
#include "app/cli/distributed.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/model_names.h"
#include "app/cli/output.h"
#include "app/cli/running_options.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "app/description/facts.h"
#include "app/description/number_text.h"
#include "app/figure/figure_words.h"
#include "backend/base/atomic_file.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/run.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/text/file_bytes.h"
#include "backend/text/read_text.h"
#include "backend/text/token_ids.h"

namespace foxscope::cli {
namespace {

/// `foxscope run`, as typed.
struct RunOptions : RunningOptions {
  std::vector<std::string> models;  ///< [NAME=]DIR
  std::string text;                 ///< file, "-" for standard input; empty: ids
  std::string ids;
  std::optional<std::int64_t> limit;
  std::string keep = "loss,gates,rows,qk";
  std::string saliency;  ///< A:B
  std::string invalidUtf8 = "refuse";
  std::string output;
  bool force = false;
  bool json = false;
};

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

/// The share of a run file that one word of `--keep` adds.
struct KeptPart {
  std::string word;  ///< as in --keep
  std::int64_t bytes = 0;
};

/// Sizes of the parts that a run keeps. The little beside them (tokens, text, attributes) is left out.
std::vector<KeptPart> partsOf(const RunPlan& plan) {
  const TraceSizes sizes = sizes_of(plan.model.config, plan.length());
  std::vector<KeptPart> parts;
  for (const KeepWord& word : kKeepWords) {
    if (!plan.request.keep.contains(word.keep)) continue;
    std::int64_t bytes = 0;
    for (const ArraySpec& spec : kTraceArrays) {
      if (spec.keep == word.keep) bytes += static_cast<std::int64_t>(bytes_of(spec, sizes, plan.model.dtype));
    }
    parts.push_back({word.word, bytes});
  }
  return parts;
}

std::int64_t totalBytes(const std::vector<KeptPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const KeptPart& part) { return sum + part.bytes; });
}

/// Bytes that the file takes at least: of arrays that are stored as they are.
std::int64_t leastBytes(const std::vector<RunPlan>& plans) {
  std::int64_t bytes = 0;
  for (const RunPlan& plan : plans) {
    const TraceSizes sizes = sizes_of(plan.model.config, plan.length());
    for (const ArraySpec& spec : kTraceArrays) {
      const bool stored = spec.storage == Storage::store && plan.request.keep.contains(spec.keep);
      if (stored) bytes += static_cast<std::int64_t>(bytes_of(spec, sizes, plan.model.dtype));
    }
  }
  return bytes;
}

/// "run.h5 will take about 4.9 GB, 4.3 GB of it for logits: leave logits out of --keep for a smaller file, or read less
/// by --length (37 kB a token)".
/// @param tokens  of the longest run in the file
std::string largeFileNote(const std::string& output, const std::vector<KeptPart>& parts, std::int64_t tokens) {
  const auto bytes = static_cast<double>(totalBytes(parts));
  return fmt::format(
      "{} will take about {}, {} of it for {}: leave {} out of --keep for a smaller file, or read less by --length ({} "
      "a token)",
      output, sizeText(bytes), sizeText(static_cast<double>(parts.front().bytes)), parts.front().word,
      parts.front().word, sizeText(bytes / static_cast<double>(tokens)));
}

/// The summary that `foxscope run` prints of one model.
struct ModelSummary {
  std::string name;
  std::int64_t tokens = 0;
  std::optional<double> meanLoss;  ///< nats; absent when losses were not kept
  double loadSeconds = 0;
  double forwardSeconds = 0;
  double writeSeconds = 0;           ///< its share of writing the file, the flush to disk left out
  std::int64_t peakMemoryBytes = 0;  ///< of the process, while this model was loaded and ran
  std::int64_t fileBytes = 0;        ///< what it adds to the file, estimated
  std::string device;
  std::string dtype;
  std::string attentionKernel;
  std::int64_t attentionBlocks = 0;
  std::int64_t skippedBlocks = 0;
};

double tokensPerSecond(const ModelSummary& model) {
  return model.forwardSeconds > 0 ? static_cast<double>(model.tokens) / model.forwardSeconds : 0.0;
}

ModelSummary summarize(const RunResult& result) {
  const TraceInfo& info = result.trace->info();
  ModelSummary summary;
  summary.name = info.name;
  summary.tokens = info.length;
  summary.meanLoss = meanOf(result.trace->per_token_loss());
  summary.loadSeconds = result.report.load_seconds;
  summary.forwardSeconds = result.report.forward_seconds;
  summary.device = info.device;
  summary.dtype = to_string(info.dtype);
  summary.attentionKernel = result.report.forward.attention_kernel;
  summary.attentionBlocks = result.report.forward.attention_blocks;
  summary.skippedBlocks = result.report.forward.skipped_blocks;
  return summary;
}

/// The summary of `--json`.
std::string summaryJson(const std::string& output, const std::vector<ModelSummary>& models) {
  auto list = nlohmann::ordered_json::array();
  for (const ModelSummary& model : models) {
    const double loss = model.meanLoss.value_or(std::numeric_limits<double>::quiet_NaN());
    list.push_back(
        {{"name", model.name},
         {"tokens", model.tokens},
         {"mean_loss", jsonNumber(loss)},
         {"perplexity", jsonNumber(std::exp(loss))},
         {"tokens_per_second", tokensPerSecond(model)},
         {"seconds", {{"load", model.loadSeconds}, {"forward", model.forwardSeconds}, {"write", model.writeSeconds}}},
         {"peak_memory_bytes", model.peakMemoryBytes},
         {"device", model.device},
         {"dtype", model.dtype},
         {"attention_kernel", model.attentionKernel},
         {"skipped_blocks", model.skippedBlocks}});
  }
  const nlohmann::ordered_json summary{{"output", output}, {"models", std::move(list)}};
  return summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

/// The summary for people: one line a model, columns aligned, units in the header.
std::string summaryTable(const std::string& output, const std::vector<ModelSummary>& models) {
  using enum TextTable::Align;
  TextTable table({"model", "tokens", "loss (nats)", "perplexity", "tokens/s", "load (s)", "forward (s)", "write (s)",
                   "peak memory", "blocks skipped", "device"},
                  {left, right, right, right, right, right, right, right, right, right, left});
  for (const ModelSummary& model : models) {
    // Linear mixers have no blocks of attention.
    const std::string skipped = model.attentionBlocks > 0
                                    ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(model.skippedBlocks) /
                                                                  static_cast<double>(model.attentionBlocks))
                                    : "-";
    table.addRow({model.name, count_text(model.tokens), model.meanLoss ? fmt::format("{:.4f}", *model.meanLoss) : "-",
                  model.meanLoss ? fmt::format("{:.2f}", std::exp(*model.meanLoss)) : "-",
                  count_text(std::llround(tokensPerSecond(model))), fmt::format("{:.2f}", model.loadSeconds),
                  fmt::format("{:.2f}", model.forwardSeconds), fmt::format("{:.2f}", model.writeSeconds),
                  sizeText(static_cast<double>(model.peakMemoryBytes)), skipped,
                  fmt::format("{} {}", model.device, model.dtype)});
  }
  return table.text() + "written to " + output + '\n';
}

InvalidUtf8 parseInvalidUtf8(const std::string& word) {
  if (word == "refuse") return InvalidUtf8::offer;
  if (word == "replace") return InvalidUtf8::replace;
  throw UsageError(fmt::format("--invalid-utf8 {}: there is no such choice: use refuse or replace", word));
}

void checkOptions(const RunOptions& options) {
  if (options.text.empty() == options.ids.empty()) {
    throw UsageError("run needs one input: give either --text FILE or --ids FILE");
  }
}

/// The input as it stands in the file; ids are read again for each model, whose vocabulary bounds them.
struct Source {
  std::shared_ptr<const Text> text;
  std::string idsContent;

  static Source read(const RunOptions& options) {
    if (options.text.empty()) return {nullptr, read_input_bytes(options.ids, "file of token ids", largest_text)};
    std::string content = read_text(options.text, parseInvalidUtf8(options.invalidUtf8));
    std::string identity = sha256(content);
    return {std::make_shared<const Text>(Text{std::move(content), std::move(identity)}), ""};
  }

  [[nodiscard]] RunInput input(const RunOptions& options, const ModelConfig& config) const {
    RunInput result;
    result.text = text;
    result.name = text ? options.text : options.ids;
    if (!text) {
      TokenIds ids = read_token_ids(idsContent, options.ids, config.vocabulary_size);
      result.ids = std::move(ids.ids);
      result.labels = std::move(ids.labels);
    }
    return result;
  }
};

RunPlan planRun(const RunOptions& options, OpenedModel model, const Source& source, KeepSet keep) {
  RunRequest request;
  request.input = source.input(options, model.config);
  request.limit = options.limit;
  request.keep = std::move(keep);
  if (!options.saliency.empty()) {
    request.saliency = figure::parseRange("--saliency", options.saliency, Range::kToTheEnd);
  }
  return plan_run(std::move(model), std::move(request));
}

/// Plans every model. Where some have experts, those that have none keep the rest of --keep, and a note says so.
std::vector<RunPlan> planRuns(const RunOptions& options, std::vector<OpenedModel> models, const Source& source,
                              Console& console) {
  const bool mixed =
      std::ranges::any_of(models, [](const OpenedModel& model) { return model.config.mixture.has_value(); });
  std::vector<RunPlan> plans;
  plans.reserve(models.size());
  for (OpenedModel& model : models) {
    KeepSet keep = parse_keep(options.keep);
    if (mixed && !model.config.mixture && keep.erase(Keep::experts) > 0) {
      console.note(fmt::format("{}: is no mixture of experts: its run keeps the rest of --keep", model.request.name));
    }
    plans.push_back(planRun(options, std::move(model), source, std::move(keep)));
  }
  return plans;
}

// Sizes of all models together, by part, the largest first.
std::vector<KeptPart> partsOfFile(const std::vector<RunPlan>& plans) {
  std::map<std::string, std::int64_t> bytes;
  for (const RunPlan& plan : plans) {
    for (const KeptPart& part : partsOf(plan)) bytes[part.word] += part.bytes;
  }
  std::vector<KeptPart> parts;
  parts.reserve(bytes.size());
  for (const auto& [word, size] : bytes) parts.push_back({word, size});
  std::ranges::stable_sort(parts, std::greater{}, &KeptPart::bytes);
  return parts;
}

void announceLargeFile(const RunOptions& options, const std::vector<RunPlan>& plans, Console& console) {
  const auto parts = partsOfFile(plans);
  if (totalBytes(parts) <= kAnnouncedFileBytes) return;
  std::int64_t tokens = 0;
  for (const RunPlan& plan : plans) tokens = std::max(tokens, plan.length());
  console.note(largeFileNote(options.output, parts, tokens));
}

// The highest memory use is the process's own account; it starts anew for each model where the system allows.
void resetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::int64_t peakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// Divides the time of writing the file among the models by what each adds to it.
void shareWriteSeconds(double seconds, std::vector<ModelSummary>& models) {
  std::int64_t total = 0;
  for (const ModelSummary& model : models) total += model.fileBytes;
  for (ModelSummary& model : models) {
    const double share = total > 0 ? static_cast<double>(model.fileBytes) / static_cast<double>(total)
                                   : 1.0 / static_cast<double>(models.size());
    model.writeSeconds = seconds * share;
  }
}

/// Opens every model. A change of all gates is left out of models that have none, and a note says so.
/// @throws UsageError where no model has any
std::vector<OpenedModel> openModels(const RunOptions& options, const std::vector<NamedModel>& models,
                                    const Engine& engine, Console& console) {
  std::vector<OpenedModel> opened;
  std::map<std::string, std::size_t> leftOut;  // by change, from how many models
  std::vector<std::string> notes;
  for (const NamedModel& named : models) {
    ModelRequest request = modelRequest(options, named);
    while (opened.empty() || opened.back().request.name != named.name) {
      try {
        opened.push_back(engine.open(request));
      } catch (const NoGatesError& error) {
        const auto change = request.interventions.begin() + static_cast<std::ptrdiff_t>(error.change());
        const std::string text = change->text();
        if (++leftOut[text] == models.size()) throw;
        notes.push_back(fmt::format("{}: has no gates: --intervene '{}' is left out of its run", named.name, text));
        request.interventions.erase(change);
      }
    }
  }
  for (const std::string& note : notes) console.note(note);
  return opened;
}

int runModels(const RunOptions& options, const CommandContext& context) {
  requireSingleProcess("run");
  checkOptions(options);
  const auto models = parseModels(options.models);
  const std::string& input = options.text.empty() ? options.ids : options.text;
  requireDistinct(options.output, input);
  requireHdf5Name(options.output);
  requireWritable(options.output, options.force);

  const Source source = Source::read(options);
  if (source.text && source.text->content.starts_with(kByteOrderMark)) {
    context.console.note(
        fmt::format("{}: begins with a byte order mark, which the models read as the text's first tokens: leave it out "
                    "with `tail -c +4`",
                    options.text));
  }
  const Engine engine;
  const std::vector<RunPlan> plans =
      planRuns(options, openModels(options, models, engine, context.console), source, context.console);
  announceLargeFile(options, plans, context.console);
  AtomicFile(options.output, options.force)
      .require_space(static_cast<std::uint64_t>(leastBytes(plans)),
                     "free space there, write elsewhere, or keep or read less (--keep, --length)");
  context.console.outputBytes(leastBytes(plans));

  std::vector<std::shared_ptr<const Trace>> traces;
  std::vector<ModelSummary> summaries;
  for (const RunPlan& plan : plans) {
    const std::string& name = plan.model.request.name;
    context.console.setSubject(modelTurn(name, traces.size() + 1, plans.size()));
    resetPeakMemory();
    const auto result = run_model(plan, context.job());
    if (!result) return kInterrupted;
    for (const std::string& note : result->report.notes) {
      context.console.note(fmt::format("{}: {}", name, note));
    }
    summaries.push_back(summarize(*result));
    summaries.back().peakMemoryBytes = peakMemoryBytes();
    summaries.back().fileBytes = totalBytes(partsOf(plan));
    context.console.detail(fmt::format("{}: {} tokens, attention by {}", name, count_text(summaries.back().tokens),
                                       summaries.back().attentionKernel));
    traces.push_back(result->trace);
  }

  context.console.setSubject(options.output);
  double writeSeconds = 0;
  const Provenance provenance{context.commandLine, ""};
  if (!write_run_file(options.output, traces, provenance, options.force ? Overwrite::force : Overwrite::refuse,
                      context.job(), &writeSeconds)) {
    return kInterrupted;
  }
  context.console.endProgress();
  shareWriteSeconds(writeSeconds, summaries);
  if (options.json) {
    Console::write(summaryJson(options.output, summaries));
  } else {
    context.console.report(summaryTable(options.output, summaries));
  }
  return kDone;
}

}  // namespace

void addRunCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "run", "Run one or more models on one text and write a run file",
      "  foxscope run --model resources/models/fox-pro-12m --text chapter.txt -o run.h5\n"
      "  foxscope run --model fox=FOLDER --model base=owner/name --text chapter.txt --length 4096 -o both.h5\n"
      "  foxscope run --model FOLDER --ids ids.json --keep loss,gates -o small.h5 --json\n"
      "  foxscope run --model FOLDER --text chapter.txt --keep loss,gates,saliency --saliency 512:1024 -o owed.h5\n"
      "  foxscope run --model FOLDER --text - --intervene '*:*:one' -o ungated.h5 < chapter.txt");
  command
      ->add_option("--model", options->models,
                   "Checkpoint folder or hub id, run under NAME (default: its last part); repeatable")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--text", options->text, "Text file, - for standard input")->type_name("FILE");
  command
      ->add_option("--ids", options->ids,
                   "Instead of a text: JSON array of token ids, or {\"input_ids\": [...], \"labels\": [...]}")
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "Run file to write (HDF5)")->type_name("RUN.h5")->required();
  command
      ->add_option("--length,--limit", options->limit,
                   "Only the first N tokens; the file holds the part of the text that they are")
      ->type_name("N");
  addRunningOptions(*command, *options, "the sequence");
  addInterventions(*command, *options,
                   "Change gates or outputs; * for all layers or heads; KIND is one, constant=f, mean, scale=s, zero@p "
                   "or cut, or with * for the head drop=e, of an expert; repeatable");
  command
      ->add_option("--keep", options->keep,
                   fmt::format("Arrays that the file holds: {} (default: {})", keep_words(","), options->keep))
      ->type_name("ARRAY,...");
  command
      ->add_option(
          "--saliency", options->saliency,
          "With --keep saliency: gradients of the mean loss of positions A up to B (default: of all); gates behind "
          "B have none, so --length B leaves nothing out")
      ->type_name("A:B");
  command
      ->add_option("--invalid-utf8", options->invalidUtf8,
                   "Bytes of the text that are not UTF-8: refuse, or replace by U+FFFD (default: refuse)")
      ->type_name("refuse|replace");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  parsed.oneOf[command] = {"--text", "--ids"};
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return runModels(*options, context); };
  });
}

}  // namespace foxscope::cli
