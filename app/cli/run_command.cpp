#include "app/cli/run_command.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "app/cli/distributed.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/file_size.h"
#include "app/cli/model_names.h"
#include "app/cli/run_summary.h"
#include "app/description/number_text.h"
#include "app/figure/figure_words.h"
#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/model/session/run.h"
#include "backend/text/file_bytes.h"

namespace foxscope::cli {
namespace {

// A byte of text becomes at most this many tokens: JSON-escaping writes six characters for one.
constexpr std::int64_t kTokensPerByte = 6;

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

/// A model that is to be run, opened and checked.
struct PlannedRun {
  OpenedModel model;
  RunRequest request;

  [[nodiscard]] std::vector<KeptPart> parts(std::int64_t length) const {
    return keptParts(model.config, length, request.keep, model.dtype);
  }
};

InvalidUtf8 parseInvalidUtf8(const std::string& word) {
  if (word == "refuse") return InvalidUtf8::refuse;
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

PlannedRun planRun(const RunOptions& options, OpenedModel model, const Source& source) {
  PlannedRun plan{std::move(model), {}};
  RunRequest& request = plan.request;
  request.input = source.input(options, plan.model.config);
  request.limit = options.limit;
  request.keep = parse_keep(options.keep);
  if (!options.saliency.empty()) {
    request.saliency = figure::parseRange("--saliency", options.saliency, Range::kToTheEnd);
  }
  validate(request, plan.model);
  return plan;
}

// An upper bound on the run's tokens, known without cutting the text.
std::int64_t lengthBound(const PlannedRun& plan) {
  const RunInput& input = plan.request.input;
  const std::size_t length = input.text ? input.text->content.size() * kTokensPerByte : input.ids.size();
  const auto most = static_cast<std::int64_t>(length);
  return std::min(plan.request.limit.value_or(most), most);
}

std::int64_t exactLength(const PlannedRun& plan) {
  const RunInput& input = plan.request.input;
  if (!input.text) return lengthBound(plan);
  const std::size_t length = plan.model.tokenizer().encode(input.text->content).size();
  return std::min(lengthBound(plan), static_cast<std::int64_t>(length));
}

// Sizes of all models together, by part.
std::vector<KeptPart> partsOfFile(const std::vector<PlannedRun>& plans,
                                  std::int64_t (*length)(const PlannedRun& plan)) {
  std::map<std::string, std::int64_t> bytes;
  for (const PlannedRun& plan : plans) {
    for (const KeptPart& part : plan.parts(length(plan))) bytes[part.word] += part.bytes;
  }
  std::vector<KeptPart> parts;
  parts.reserve(bytes.size());
  for (const auto& [word, size] : bytes) parts.push_back({word, size});
  std::stable_sort(parts.begin(), parts.end(), [](const KeptPart& a, const KeptPart& b) { return a.bytes > b.bytes; });
  return parts;
}

// Cutting a long text twice costs little beside a run whose file is worth announcing.
void announceLargeFile(const RunOptions& options, const std::vector<PlannedRun>& plans, Console& console) {
  if (totalBytes(partsOfFile(plans, lengthBound)) <= kAnnouncedBytes) return;
  const auto parts = partsOfFile(plans, exactLength);
  if (totalBytes(parts) <= kAnnouncedBytes) return;
  std::int64_t tokens = 0;
  for (const PlannedRun& plan : plans) tokens = std::max(tokens, exactLength(plan));
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

}  // namespace

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
  std::vector<PlannedRun> plans;
  plans.reserve(models.size());
  for (const NamedModel& named : models) {
    plans.push_back(planRun(options, engine.open(modelRequest(options, named)), source));
  }
  announceLargeFile(options, plans, context.console);

  std::vector<std::shared_ptr<const Trace>> traces;
  std::vector<ModelSummary> summaries;
  for (const PlannedRun& plan : plans) {
    const std::string& name = plan.model.request.name;
    context.console.setSubject(modelTurn(name, traces.size() + 1, plans.size()));
    resetPeakMemory();
    const auto result = run_model(plan.model, plan.request, context.job());
    if (!result) return kInterrupted;
    for (const std::string& note : result->report.notes) {
      context.console.note(fmt::format("{}: {}", name, note));
    }
    summaries.push_back(summarize(*result));
    summaries.back().peakMemoryBytes = peakMemoryBytes();
    summaries.back().fileBytes = totalBytes(plan.parts(summaries.back().tokens));
    context.console.detail(fmt::format("{}: {} tokens, attention by {}", name, countText(summaries.back().tokens),
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

}  // namespace foxscope::cli
