#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/cli/heads/heads_report.h"
#include "app/cli/heads/heads_tables.h"
#include "app/cli/map_options.h"
#include "backend/agent/remote_path.h"
#include "backend/agent/remote_run.h"
#include "backend/base/atomic_file.h"
#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/eval/heads/heads_evaluation.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/file/run_file.h"
#include "backend/map/map.h"
#include "backend/map/team.h"
#include "backend/trace/run_origin.h"

namespace foxscope::cli {
namespace {

constexpr std::size_t kNearestKept = 3;

struct HeadsOptions {
  std::string file;
  RunCheck check = RunCheck::whole;
  std::optional<std::string> model;
  std::string device = "auto";
  bool json = false;
  bool csv = false;
  bool split = false;
  bool byClass = false;
  bool saliency = false;
  std::optional<std::string> match;
  std::string sort;
  bool reverse = false;
  std::optional<std::int64_t> top;
  std::optional<std::int64_t> rows;
  std::string output;
  bool force = false;
};

enum class HeadsForm { table, json, csv, hdf5 };

// How the heads are told: by the output's ending, or by the flags where it is standard output.
HeadsForm formOf(const HeadsOptions& options) {
  if (options.json && options.csv) throw UsageError("heads: --json and --csv exclude each other: choose one");
  if (options.output.empty()) return options.json ? HeadsForm::json : options.csv ? HeadsForm::csv : HeadsForm::table;
  if (options.json || options.csv) {
    throw UsageError(
        fmt::format("heads: {} says by its ending what is written: leave out --json and --csv", options.output));
  }
  const std::string ending = std::filesystem::path(options.output).extension().string();
  if (ending == ".h5") return HeadsForm::hdf5;
  if (ending == ".json") return HeadsForm::json;
  if (ending == ".csv") return HeadsForm::csv;
  throw UsageError(fmt::format("-o {}: give the file one of the endings .h5, .csv and .json", options.output));
}

void checkOptions(const HeadsOptions& options, HeadsForm form) {
  if (options.top && *options.top < 1) throw UsageError(fmt::format("--top {}: it must be at least 1", *options.top));
  if (options.reverse && options.sort.empty() && !options.saliency)
    throw UsageError("--reverse: say by --sort what heads are sorted by");
  if (form == HeadsForm::hdf5 && (!options.sort.empty() || options.top || options.match)) {
    throw UsageError(
        fmt::format("-o {}: arrays of all heads have no order: leave out --sort, --top and --match", options.output));
  }
  if (options.rows) {
    if (*options.rows < 2) throw UsageError(fmt::format("--rows {}: it must be at least 2", *options.rows));
    if (options.split) throw UsageError("--rows: --split is of all rows: leave one of them out");
    if (form == HeadsForm::hdf5) {
      throw UsageError(
          fmt::format("-o {}: errors of sampled rows are in .csv and .json: write one of these, or leave out --rows",
                      options.output));
    }
  }
  if (options.output.empty()) return;
  requireDistinct(options.output, options.file);
  requireWritable(options.output, options.force);
}

/// The number of layers whose attention has statistics.
int layersWithAttention(const Trace& trace) {
  int count = 0;
  for (int layer = 0; layer < trace.info().layers; ++layer) {
    count += trace.info().mixer(layer).heads > 0 && trace.has_attention(layer) ? 1 : 0;
  }
  return count;
}

/// The first layer whose attention has no statistics: the arrays that it lacks, the part that has no numbers, and what
/// gives them.
struct Lacking {
  std::string words;
  std::string of;
  std::string remedy;
};
Lacking lackingOf(const Trace& trace) {
  const std::string rows = "queries and keys or row normalisers were";
  const auto remedy = [&](Keep keep) { return keep_remedy(trace.info(), keep, "--keep gates,rows,qk"); };
  const std::string ofRows = remedy(trace.query_key() == nullptr ? Keep::query_key : Keep::rows);
  if (layersWithAttention(trace) == 0 && trace.query_key() == nullptr) return {rows, "attention", ofRows};
  int layer = 0;
  while (layer + 1 < trace.info().layers && trace.has_attention(layer)) ++layer;
  if (trace.info().mixer(layer).has_softmax()) {
    return {rows, layersWithAttention(trace) > 0 ? "softmax attention" : "attention", ofRows};
  }
  const TraceArray array = trace.lacking(layer).value_or(TraceArray::query);
  const ArraySpec& spec = spec_of(array);
  return {fmt::format("{} of layer {} was", name_of(spec), layer), "that layer", remedy(spec.keep)};
}

bool hasAttention(const Trace& trace) {
  for (int layer = 0; layer < trace.info().layers; ++layer) {
    if (!trace.has_attention(layer)) return false;
  }
  return true;
}

MeasureOptions measureOptions(const HeadsOptions& options, const Trace& trace) {
  MeasureOptions measure;
  measure.with_split = options.split;
  measure.statistics.rows = options.rows.value_or(0);
  check_rows(measure.statistics.rows, trace.info().length);
  const bool needed = options.split || options.match;
  if (needed && !hasAttention(trace)) {
    const Lacking lacking = lackingOf(trace);
    throw Error(fmt::format("{}: model '{}': {} not kept, and {} needs them: {}", options.file, trace.info().name,
                            lacking.words, options.split ? "--split" : "--match", lacking.remedy));
  }
  if (options.split && !trace.info().has_softmax()) {
    throw UsageError(
        fmt::format("{}: model '{}': --split is of softmax attention, and the model has none: leave it out",
                    options.file, trace.info().name));
  }
  if (options.saliency && !trace.has(TraceArray::log_forget_gradient)) {
    throw Error(fmt::format("{}: model '{}': saliency was not kept: {}", options.file, trace.info().name,
                            keep_remedy(trace.info(), Keep::saliency)));
  }
  return measure;
}

/// Calls body(measures) for every head, by layer, then head. @returns false if the job was stopped
template <typename Body>
bool measureHeads(const RunOnDevice& trace, const MeasureOptions& options, const CommandContext& context,
                  const Body& body) {
  const std::int64_t heads = std::int64_t{trace->info().layers} * trace->info().heads;
  std::int64_t done = 0;
  context.console.setSubject(trace->info().name);
  context.console.progress({done, heads, "heads", "statistics"});
  if (!measure_heads(trace, options, Job{context.stop, {}, nullptr}, [&](HeadMeasures measures) {
        body(std::move(measures));
        context.console.progress({++done, heads, "heads", "statistics"});
      })) {
    return false;
  }
  context.console.endProgress();
  return true;
}

bool findNearest(const HeadsOptions& options, const RunOnDevice& other, const CommandContext& context,
                 HeadsReport& report) {
  report.matched = other->info().name;
  const bool itself = report.matched == report.model;
  std::vector<std::pair<NearestHead, ProfileSketch>> known;
  MeasureOptions measure = measureOptions(options, *other);
  measure.with_split = false;
  if (!measureHeads(other, measure, context, [&](HeadMeasures measures) {
        known.push_back({{measures.statistics.layer, measures.statistics.head, 0}, *measures.sketch});
      })) {
    return false;
  }
  for (ReportedHead& head : report.heads) {
    const HeadStatistics& own = head.measures.statistics;
    for (auto& [nearest, sketch] : known) {
      if (itself && nearest.layer == own.layer && nearest.head == own.head) continue;
      const double octaves = octaves_apart(*head.measures.sketch, sketch);
      // Attention that is not a number is near to none.
      if (!std::isnan(octaves)) head.nearest.push_back({nearest.layer, nearest.head, octaves});
    }
    std::stable_sort(head.nearest.begin(), head.nearest.end(),
                     [](const NearestHead& a, const NearestHead& b) { return a.octaves < b.octaves; });
    head.nearest.resize(std::min(head.nearest.size(), kNearestKept));
  }
  return true;
}

void writeArrays(const HeadsOptions& options, std::span<const HeadsReport> reports, const CommandContext& context) {
  HeadsEvaluation evaluation;
  evaluation.content = HeadsContent::run;
  evaluation.corpus.source = agent::name_without_folder(options.file);
  for (const HeadsReport& report : reports) {
    HeadsAccumulator accumulator(report.run->info());
    for (const ReportedHead& head : report.heads) accumulator.add(head.measures);
    accumulator.end_window(0);
    evaluation.models.push_back(accumulator.finish());
  }
  write_heads_file(options.output, evaluation, {context.commandLine, ""},
                   options.force ? Overwrite::force : Overwrite::refuse);
}

void writeText(const HeadsOptions& options, const std::string& text) {
  if (options.output.empty()) {
    Console::write(text);
    return;
  }
  AtomicFile file(options.output, options.force);
  file.write(text.data(), text.size());
  file.commit();
}

/// The heads of one model, in their order and as many as were asked for. @returns nothing if the job was stopped
std::optional<HeadsReport> reportOf(const HeadsOptions& options, const RunFile& run, const RunOnDevice& trace,
                                    const CommandContext& context) {
  MeasureOptions measure = measureOptions(options, *trace);
  const HeadsForm form = formOf(options);
  // The tables of saliency and of classes have no number of attention.
  const bool tellsAttention = form != HeadsForm::table || !(options.saliency || options.byClass);
  if (!hasAttention(*trace) && tellsAttention) {
    const Lacking lacking = lackingOf(*trace);
    context.console.note(fmt::format("{}: {} not kept, so there is nothing to say of {}: {}", options.file,
                                     lacking.words, lacking.of, lacking.remedy));
  }
  if (options.saliency && forgets(trace->info()) && ordering_number(*trace) == SaliencyNumber::per_nat) {
    context.console.note(
        fmt::format("{}: gates were not kept, so saliency_scale and saliency_absolute are not known: {}", options.file,
                    keep_remedy(trace->info(), Keep::gates, "--keep loss,gates,saliency")));
  }
  std::vector<TokenClassSet> classes;
  if (options.byClass) measure.classes = classes = read_classes(*trace);
  HeadsReport report;
  report.model = trace->info().name;
  report.tokens = trace->info().length;
  report.split = options.split;
  report.classes = options.byClass;
  report.saliency = options.saliency;
  report.rows = measure.statistics.rows < report.tokens ? measure.statistics.rows : 0;
  report.run = trace.trace;
  if (!measureHeads(trace, measure, context, [&](HeadMeasures measures) {
        report.heads.push_back({std::move(measures), {}});
      })) {
    return std::nullopt;
  }
  if (form == HeadsForm::hdf5) return report;  // arrays stand in the order of layers and heads
  if (options.match && !findNearest(options, {run.trace(options.match), trace.gpu}, context, report)) {
    return std::nullopt;
  }
  const std::string sort = options.sort.empty() && options.saliency ? to_string(ordering_number(*trace)) : options.sort;
  rank(report, {sort, options.reverse, static_cast<std::size_t>(options.top.value_or(0))});
  return report;
}

int tellHeads(const HeadsOptions& options, const CommandContext& context) {
  const HeadsForm form = formOf(options);
  checkOptions(options, form);
  const std::optional<int> gpu = agent::gpu_for(options.file, options.device);
  const std::optional<RunFile> run = agent::open_run(options.file, options.check, context.job(), options.device);
  if (!run) return kInterrupted;
  noteUnchecked(context.console, options.file, options.check);
  std::vector<HeadsReport> reports;
  for (const auto& trace : run->traces) {
    if (options.model && trace != run->trace(options.model)) continue;
    auto report = reportOf(options, *run, {trace, gpu}, context);
    if (!report) return kInterrupted;
    reports.push_back(std::move(*report));
  }
  switch (form) {
    case HeadsForm::hdf5:
      writeArrays(options, reports, context);
      break;
    case HeadsForm::table:
      Console::print(headsTables(reports));
      break;
    case HeadsForm::json:
      writeText(options, headsJson(reports));
      break;
    case HeadsForm::csv:
      writeText(options, headsCsv(reports));
      break;
  }
  return kDone;
}

// The definition of each label, with its threshold.
std::string labelDefinitions() {
  std::string text = "Labels, the strongest (score over threshold) first:\n";
  for (int n = 0; n < kHeadLabels; ++n) {
    const HeadLabelText& label = text_of(static_cast<HeadLabel>(n));
    text += fmt::format("  {:<15}at {} and more: {}\n", label.name, label.threshold, label.definition);
  }
  return text + '\n';
}

}  // namespace

void addHeadsCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<HeadsOptions>();
  CLI::App* command = addSubcommand(program, parsed, "heads", "Statistics of every head of a run",
                                    "  foxscope heads run.h5\n"
                                    "  foxscope heads run.h5 --sort rate_decay_time --top 8\n"
                                    "  foxscope heads run.h5 --split --by-class -o heads.h5\n"
                                    "  foxscope heads run.h5 --saliency --top 8\n"
                                    "  foxscope heads long.h5 --rows 64\n"
                                    "  foxscope heads both.h5 --model fox --match base\n"
                                    "  foxscope heads both.h5 --model fox --csv > heads.csv");
  command->footer(labelDefinitions() + command->get_footer());
  command->add_option("file", options->file, "Run file")->type_name("RUN.h5")->required();
  command->add_option("--model", options->model, "Name of the model, where the file holds several (default: all)")
      ->type_name("NAME");
  command->add_flag("--split", options->split,
                    "Split attention into content and decay: how much of a head's locality comes from its gate");
  command->add_flag("--by-class", options->byClass,
                    "Gates by class of the token that is read: punctuation, newline, first token of a word...");
  command->add_flag("--saliency", options->saliency,
                    "Gradient of the loss by each head's gates, largest saliency_absolute first, of runs with --keep "
                    "saliency: it tells the effect of a small change of log f; eval sweep tells the effect of no "
                    "forgetting");
  command
      ->add_option("--match", options->match, "Heads of this model of the file that have the nearest distance profiles")
      ->type_name("NAME");
  command->add_option("--sort", options->sort, "Largest first by this statistic, a column of the table or of --csv")
      ->type_name("STATISTIC");
  command->add_flag("--reverse", options->reverse, "Smallest first");
  command->add_option("--top", options->top, "Only the first N heads")->type_name("N");
  command
      ->add_option("--rows", options->rows,
                   "Estimate attention from N rows, an even number, with a standard error of every statistic: two rows "
                   "of each of N/2 pieces of the text, the same for every head (default: measure all rows)")
      ->type_name("N");
  command
      ->add_option("-o,--output", options->output,
                   "File to write instead of standard output: .csv, .json, or .h5 for arrays [layers, heads]")
      ->type_name("FILE");
  command->add_flag("--force", options->force, "Overwrite the output");
  command
      ->add_option("--device", options->device,
                   "Device that measures attention: auto, cpu, cuda or cuda:N (default: auto)")
      ->type_name("DEVICE");
  command->add_flag("--json", options->json, "Print every statistic as JSON");
  command->add_flag("--csv", options->csv, "Print every statistic as CSV");
  addUnchecked(*command, options->check);
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return tellHeads(*options, context); };
  });
}

}  // namespace foxscope::cli
