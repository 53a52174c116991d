#include "app/cli/eval/eval_sweep_command.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/console.h"
#include "app/cli/distributed.h"
#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/text_table.h"
#include "app/cli/values.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"
#include "backend/eval/sweep/sweep.h"
#include "backend/text/file_bytes.h"
#include "backend/text/read_text.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval sweep`, as typed.
struct SweepOptions {
  EvalOptions eval;
  std::string text;
  std::optional<std::int64_t> limit;
  std::string change = "one";
  std::optional<double> fdr;
  bool force = false;
  bool json = false;
  bool csv = false;
};

constexpr const char* kSweepRule =
    "The model reads the text once as it is and once with each single head changed. A head's number is the mean over\n"
    "tokens of the loss with the change minus the loss without, in nats: above 0, the model needs the head as it was.\n"
    "Its standard error comes from means over blocks of neighbouring tokens, whose changes resemble each other (8 to "
    "64\n"
    "blocks of at least 32 tokens; a text of fewer than 256 tokens has no errors). It is the error for more text of "
    "this\n"
    "kind from the same source, not for other texts. A head is beyond chance where 0 is outside its 95 % interval\n"
    "(Student's t); one in twenty of the heads without any effect is, too. --fdr 0.05 marks fewer heads: one in twenty "
    "of\n"
    "the heads that it marks is expected to be chance (Benjamini and Hochberg). The file holds the losses of every "
    "token.\n"
    "If a sweep ends early, the same command goes on from OUTPUT.partial.\n"
    "\n";

void checkOptions(const SweepOptions& options) {
  if (options.eval.models.size() != 1) {
    throw UsageError("eval sweep: takes one model: sweep over each model in a command of its own");
  }
  if (options.fdr) (void)discoveries({}, *options.fdr);
  if (options.json && options.csv) throw UsageError("--csv: goes with text or JSON alone: leave out --json");
}

SweepFileRequest makeRequest(const SweepOptions& options) {
  SweepFileRequest request;
  request.sweep.change = Intervention::parse_change(options.change);
  request.sweep.limit = options.limit;
  request.sweep.input.name = options.text;
  request.sweep.input.text = std::make_shared<const Text>(Text{read_text(options.text, InvalidUtf8::refuse), ""});
  request.output = options.eval.output;
  request.start_anew = options.force;
  return request;
}

void tellUser(const OpenedModel& model, const SweepResult& result, const CommandContext& context) {
  const TraceInfo& info = result.evaluation.info;
  for (const std::string& note : model.config.notes) context.console.note(fmt::format("{}: {}", info.name, note));
  if (result.resumed > 0) {
    context.console.note(fmt::format("{}: {} of {} {} computed before", info.name, result.resumed,
                                     std::ssize(result.evaluation.changes(0)),
                                     result.resumed == 1 ? "heads was" : "heads were"));
  }
  context.console.detail(
      fmt::format("{}: {} {} in {}, attention by {}", info.name, result.timing.heads,
                  plural(result.timing.heads, "head"), durationText(result.timing.forward_seconds),
                  result.timing.attention_kernel.empty() ? "nothing" : result.timing.attention_kernel));
}

int evaluateSweep(const SweepOptions& options, const CommandContext& context) {
  requireSingleProcess("eval sweep");
  checkOptions(options);
  requireDistinct(options.eval.output, options.text);
  requireHdf5Name(options.eval.output);
  requireWritable(options.eval.output, options.force);
  sayLeft(context, options.eval.output);
  const SweepFileRequest request = makeRequest(options);
  const OpenedModel model = openModels(options.eval).front();
  context.console.setSubject(model.request.name);
  const auto note = [&](const std::string& text) { context.console.note(text); };
  const auto result = evaluate_sweep(model, request, sayKept(context), note, context.job());
  if (!result) return kInterrupted;
  write_sweep_file(options.eval.output, result->evaluation, {context.commandLine, ""},
                   options.force ? Overwrite::force : Overwrite::refuse);
  finish_sweep(request);
  context.console.endProgress();
  tellUser(model, *result, context);
  if (options.json) {
    Console::write(sweepJson("", options.eval.output, result->evaluation, &*result, options.fdr));
  } else if (options.csv) {
    Console::write(result->evaluation.csv(options.fdr));
  } else {
    context.console.report(sweepText(result->evaluation, options.fdr) + "written to " + options.eval.output + '\n');
  }
  return kDone;
}

using Json = nlohmann::ordered_json;
using enum TextTable::Align;

constexpr std::size_t kHeadsShown = 20;

/// " the" +1.23 at 17: a token with its change.
std::string tokenCell(const SweepEvaluation& sweep, const std::vector<TokenChange>& tokens) {
  if (tokens.empty()) return "-";
  const TokenChange& first = tokens.front();
  std::string where = fmt::format("{:+.2f} at {}", first.change, first.position);
  if (sweep.token.empty()) return where;
  const Json quoted = sweep.token[index_of(first.position)];
  return fmt::format("{} {}", quoted.dump(-1, ' ', false, Json::error_handler_t::replace), where);
}

Json tokensJson(const SweepEvaluation& sweep, const std::vector<TokenChange>& tokens) {
  Json list = Json::array();
  for (const TokenChange& token : tokens) {
    Json entry{{"position", token.position}};
    if (!sweep.token.empty()) entry["token"] = sweep.token[index_of(token.position)];
    entry["change"] = token.change;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

void addEvalSweepCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<SweepOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "sweep", "Effect of each single head on the loss: change the head, and compare the losses",
      "  foxscope eval sweep --model FOLDER --text chapter.txt --length 2048 -o sweep.h5\n"
      "  foxscope eval sweep --model FOLDER --text chapter.txt --change cut -o cut.h5 --csv > cut.csv\n"
      "  foxscope figure sweep sweep.h5 -o sweep.pdf");
  command->footer(kSweepRule + command->get_footer());
  command
      ->add_option("--model", options->eval.models, "Checkpoint folder or hub id, named NAME (default: its last part)")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--text", options->text, "Text file, - for standard input")->type_name("FILE")->required();
  command->add_option("--length,--limit", options->limit, "Only the first N tokens")->type_name("N");
  command
      ->add_option("--change", options->change,
                   "Change to each head: f = 1 (one), no output (cut), f at its mean or at a constant, or log f scaled "
                   "(default: one)")
      ->type_name("one|cut|mean|constant=f|scale=s");
  addFalseDiscoveryRate(*command, options->fdr);
  command->add_option("-o,--output", options->eval.output, "File to write (HDF5)")->type_name("SWEEP.h5")->required();
  addEvalRunning(*command, options->eval);
  command->add_flag("--force", options->force, "Overwrite the output, and unfinished work of other settings");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->add_flag("--csv", options->csv, "Print a line a head, with the numbers in full");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return evaluateSweep(*options, context); };
  });
}

std::string sweepText(const SweepEvaluation& sweep, std::optional<double> rate) {
  const std::vector<HeadChange> heads = sweep.changes(1);
  std::vector<Estimate> means;
  for (const HeadChange& head : heads) means.push_back(head.change.mean);
  const std::vector<bool> named = rate ? sweep.discovered(*rate) : std::vector<bool>();
  std::vector<std::size_t> order(heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t n) { return std::abs(means[n].value); });
  order.resize(std::min(order.size(), kHeadsShown));
  TextTable table({"layer", "head", "nats/token", rate ? fmt::format("at fdr {:g} %", 100 * *rate) : "beyond chance",
                   "perplexity", "hurts most", "helps most"},
                  {right, right, right, left, right, left, left});
  for (const std::size_t n : order) {
    const LossChange& change = heads[n].change;
    const bool marked = rate ? named[n] : beyond_chance(means[n]);
    table.addRow({std::to_string(heads[n].layer), std::to_string(heads[n].head), estimate_text(means[n], 5),
                  marked ? "yes" : "", fmt::format("x {:.4f}", change.perplexity_factor()),
                  tokenCell(sweep, change.hurt), tokenCell(sweep, change.helped)});
  }
  std::string text =
      fmt::format("{}: {:.4f} nats/token over {} {}; change by each head, {}\n", sweep.info.name, sweep.mean_loss(),
                  count_text(sweep.info.length), plural(sweep.info.length, "token"), sweep.change.kind_words()) +
      table.text();
  if (heads.size() > order.size()) {
    const std::int64_t more = std::ssize(heads) - std::ssize(order);
    text += fmt::format("{} more {} less: --json has all\n", more, more == 1 ? "head changes" : "heads change");
  }
  text += errors_text(error_blocks(sweep.info.length)) + '\n';
  const std::string beyond = beyond_chance_text(means, rate.value_or(kChance));
  return beyond.empty() ? text : text + beyond + '\n';
}

std::string sweepJson(const std::string& kind, const std::string& path, const SweepEvaluation& sweep,
                      const SweepResult* result, std::optional<double> rate) {
  Json json;
  if (!kind.empty()) json["kind"] = kind;
  json[kind.empty() ? "output" : "path"] = path;
  json["name"] = sweep.info.name;
  json["change"] = sweep.change.kind_text();
  json["intervention"] = sweep.info.intervention;
  json["source"] = sweep.source;
  json["tokens"] = sweep.info.length;
  json["mean_loss"] = sweep.mean_loss();
  const ErrorGroups blocks = error_blocks(sweep.info.length);
  json["error_block"] = blocks.tokens;
  json["error_blocks"] = blocks.count;
  if (rate) json["fdr"] = *rate;
  json["dtype"] = to_string(sweep.info.dtype);
  json["device"] = sweep.info.device;
  json["weights_sha256"] = sweep.info.weights_sha256;
  if (result != nullptr) {
    json["heads_resumed"] = result->resumed;
    json["seconds"] = {{"load", result->timing.load_seconds}, {"forward", result->timing.forward_seconds}};
    json["attention_kernel"] = result->timing.attention_kernel;
  }
  const std::vector<bool> named = rate ? sweep.discovered(*rate) : std::vector<bool>();
  json["heads"] = Json::array();
  for (const HeadChange& head : sweep.changes()) {
    const LossChange& change = head.change;
    Json entry{{"layer", head.layer},
               {"head", head.head},
               {"change", jsonNumber(change.mean.value)},
               {"change_error", jsonNumber(change.mean.error)},
               {"p_value", jsonNumber(p_value(change.mean))},
               {"perplexity_factor", jsonNumber(change.perplexity_factor())},
               {"hurt", tokensJson(sweep, change.hurt)},
               {"helped", tokensJson(sweep, change.helped)}};
    if (rate) entry["discovered"] = static_cast<bool>(named[json["heads"].size()]);
    json["heads"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace foxscope::cli
