#include <map>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/distributed.h"
#include "app/cli/eval/eval_command.h"
#include "app/cli/eval/eval_options.h"
#include "app/cli/text_table.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/plural.h"
#include "backend/eval/surprisal/surprisal.h"

namespace foxscope::cli {
namespace {

/// `foxscope eval surprisal`, as typed.
struct SurprisalOptions {
  EvalOptions eval;
  std::string text;
  std::string pairs;
  std::optional<std::int64_t> limit;
  std::string gates = "mean";
  bool words = false;
  bool wholeWords = false;
  std::string wordRule = "space";
  bool force = false;
};

constexpr const char* kSurprisalRule =
    "Each document is read by itself after BOS. The surprisal of a token is -log p of the token after all tokens "
    "before\n"
    "it. The entropy is the entropy of the distribution that the model predicts at its place. Both are in nats; "
    "divide\n"
    "by 0.6931 for bits. The likeliest token has rank 1. The gate is the forget gate f where the token is read, or "
    "the\n"
    "decay of a linear mixer, as the mean over all heads that have one.\n"
    "A word is the text between white space, or with --word-rule unicode between Unicode's word boundaries, with the\n"
    "white space before it. The surprisal and the entropy of a word are sums over its tokens, the rank is their "
    "largest\n"
    "rank, and the gate is their mean gate. A word without a token of its own, or one that --length cuts, has no "
    "numbers.\n"
    "The surprisal of a word says how likely its tokens are, whatever follows: where \"sunlit\" is cut into \"sun\" "
    "and\n"
    "\"lit\", p of \"sun\" includes p of \"sunlit\". --whole-words adds whole_word_surprisal, -log p of the word "
    "itself:\n"
    "the end of the word counts, and the end of the word before does not (Pimentel & Meister 2024, Oh & Schuler "
    "2024).\n"
    "\n";

bool endsIn(const std::string& path, const char* ending) { return std::filesystem::path(path).extension() == ending; }

void checkOptions(const SurprisalOptions& options) {
  if (options.eval.models.size() != 1) {
    throw UsageError("eval surprisal: takes one model: write a file for each model in a command of its own");
  }
  if (options.text.empty() == options.pairs.empty()) {
    throw UsageError("eval surprisal: give either --text FILE|FOLDER or --pairs FILE");
  }
  const bool hdf5 = endsIn(options.eval.output, ".h5");
  if (!hdf5 && !endsIn(options.eval.output, ".csv")) {
    throw UsageError(fmt::format("-o {}: the name must end in .csv or .h5", options.eval.output));
  }
  if (hdf5 && !options.pairs.empty()) throw UsageError("--pairs: writes CSV: end the name after -o in .csv");
  if (hdf5 && options.words) throw UsageError("--words: chooses the rows of CSV: an .h5 file holds tokens and words");
  if (options.wordRule != "space" && options.wordRule != "unicode") {
    throw UsageError(fmt::format("--word-rule {}: use space or unicode", options.wordRule));
  }
  if (options.wholeWords && !options.pairs.empty()) {
    throw UsageError("--whole-words: is of the words of a text: leave it out with --pairs");
  }
  if (options.wholeWords && !hdf5 && !options.words) {
    throw UsageError("--whole-words: adds a column to words: add --words, or end the name after -o in .h5");
  }
  if (options.wholeWords && options.wordRule == "unicode") {
    throw UsageError("--whole-words: needs words that end where white space begins: leave out --word-rule unicode");
  }
  if (options.gates != "mean" && options.gates != "heads") {
    throw UsageError(fmt::format("--gates {}: use mean or heads", options.gates));
  }
}

void writeText(const SurprisalOptions& options, const std::string& text) {
  AtomicFile file(options.eval.output, options.force);
  file.write(text.data(), text.size());
  file.commit();
}

// How many pairs are right, in all and by what they test.
std::string pairsText(const MinimalPairs& result) {
  using Counts = std::pair<std::int64_t, std::int64_t>;
  Counts all;
  std::map<std::string, Counts> byName;
  for (std::size_t n = 0; n < result.pairs.size(); ++n) {
    const std::string& name = result.pairs[n].name;
    for (Counts* counts : {&all, name.empty() ? nullptr : &byName[name]}) {
      if (counts == nullptr) continue;
      ++counts->second;
      counts->first += result.scores[n].right() ? 1 : 0;
    }
  }
  TextTable table({"pairs", "right", "of", "share"},
                  {TextTable::Align::left, TextTable::Align::right, TextTable::Align::right, TextTable::Align::right});
  std::vector<std::pair<std::string, Counts>> rows(byName.begin(), byName.end());
  rows.insert(rows.begin(), {"all pairs", all});
  for (const auto& [name, counts] : rows) {
    table.addRow({name, std::to_string(counts.first), std::to_string(counts.second),
                  fmt::format("{:.4f}", static_cast<double>(counts.first) / static_cast<double>(counts.second))});
  }
  return table.text();
}

int evaluatePairs(const SurprisalOptions& options, const OpenedModel& model, const CommandContext& context) {
  const auto result = evaluate_pairs(model, read_minimal_pairs(options.pairs), context.job());
  if (!result) return kInterrupted;
  writeText(options, result->csv());
  context.console.endProgress();
  context.console.report(pairsText(*result) + "written to " + options.eval.output + '\n');
  return kDone;
}

int evaluateSurprisal(const SurprisalOptions& options, const CommandContext& context) {
  requireSingleProcess("eval surprisal");
  checkOptions(options);
  const std::string& input = options.pairs.empty() ? options.text : options.pairs;
  requireDistinct(options.eval.output, input);
  requireWritable(options.eval.output, options.force);
  const OpenedModel model = openModels(options.eval).front();
  context.console.setSubject(model.request.name);
  if (!options.pairs.empty()) return evaluatePairs(options, model, context);
  SurprisalRequest request;
  request.corpus = options.text;
  request.limit = options.limit;
  request.gates = options.gates == "heads" ? GateColumns::heads : GateColumns::mean;
  request.words = options.wordRule == "unicode" ? WordRule::unicode : WordRule::white_space;
  request.ends = options.wholeWords ? WordEnds::counted : WordEnds::left_out;
  const auto table = evaluate_surprisal(model, request, context.job());
  if (!table) return kInterrupted;
  if (endsIn(options.eval.output, ".h5")) {
    write_surprisal_file(options.eval.output, *table, {context.commandLine, ""},
                         options.force ? Overwrite::force : Overwrite::refuse);
  } else {
    writeText(options, options.words ? table->csv_of_words() : table->csv_of_tokens());
  }
  context.console.endProgress();
  const std::int64_t words = table->word_count();
  double sum = 0;
  for (const float one : table->surprisal) sum += static_cast<double>(one);
  context.console.report(
      fmt::format("{} {}, {} {}, {} {}; mean surprisal {:.4f} nats a token{}\n", table->documents.size(),
                  plural(std::ssize(table->documents), "document"), words, plural(words, "word"), table->tokens(),
                  plural(static_cast<std::int64_t>(table->tokens()), "token"),
                  sum / static_cast<double>(table->tokens()),
                  words == 0 ? "" : fmt::format(", {:.4f} a word", sum / static_cast<double>(words))) +
      "written to " + options.eval.output + '\n');
  return kDone;
}

}  // namespace

void addEvalSurprisalCommand(CLI::App& eval, ParsedCommand& parsed) {
  const auto options = std::make_shared<SurprisalOptions>();
  CLI::App* command = addSubcommand(
      eval, parsed, "surprisal", "Surprisal, entropy, rank and gate of every token or word; minimal pairs",
      "  foxscope eval surprisal --model FOLDER --text chapter.txt --words -o words.csv\n"
      "  foxscope eval surprisal --model FOLDER --text corpus/ --gates heads -o tokens.h5\n"
      "  foxscope eval surprisal --model FOLDER --pairs anaphor_number_agreement.jsonl -o pairs.csv");
  command->footer(kSurprisalRule + command->get_footer());
  command
      ->add_option("--model", options->eval.models, "Checkpoint folder or hub id, named NAME (default: its last part)")
      ->type_name("[NAME=]DIR")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--text", options->text, "A .txt or .jsonl file, or a folder of them")->type_name("FILE|FOLDER");
  command
      ->add_option("--pairs", options->pairs,
                   "Sentences of which one should be likelier, an object a line: sentence_good, sentence_bad, UID (as "
                   "BLiMP has them)")
      ->type_name("FILE");
  command->add_flag("--words", options->words, "A line a word in CSV, not a line a token");
  command
      ->add_option(
          "--word-rule", options->wordRule,
          "Where words end: at white space, or at Unicode's word boundaries, where punctuation is a word of its "
          "own (default: space)")
      ->type_name("space|unicode");
  command->add_flag("--whole-words", options->wholeWords,
                    "Add the surprisal of each word itself, its end counted, to --words or an .h5 file");
  command->add_option("--gates", options->gates, "The mean gate of all heads, or a column a head (default: mean)")
      ->type_name("mean|heads");
  command->add_option("--length,--limit", options->limit, "Only the first N tokens of each document")->type_name("N");
  command->add_option("-o,--output", options->eval.output, "File to write, CSV or HDF5 by its ending")
      ->type_name("FILE.csv|FILE.h5")
      ->required();
  addEvalRunning(*command, options->eval);
  command->add_flag("--force", options->force, "Overwrite the output");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return evaluateSurprisal(*options, context); };
  });
}

}  // namespace foxscope::cli
