#include "app/cli/eval/eval_command.h"

#include <CLI/CLI.hpp>

namespace foxscope::cli {

void addEvalCommand(CLI::App& program, ParsedCommand& parsed) {
  CLI::App* eval = addSubcommand(
      program, parsed, "eval", "Measure models over a corpus",
      "  foxscope eval loss --model fox=FOLDER --model base=FOLDER --corpus books.jsonl.xz --windows 24 -o eval.h5\n"
      "  foxscope eval heads --model fox=FOLDER --corpus books.jsonl.xz -o heads.h5\n"
      "  foxscope eval atlas --model fox=FOLDER --corpus books.jsonl.xz -o atlas.h5\n"
      "  foxscope eval needle --model fox=FOLDER --haystack essays.txt -o needle.h5\n"
      "  foxscope eval sweep --model fox=FOLDER --text chapter.txt --length 2048 -o sweep.h5\n"
      "  foxscope eval surprisal --model FOLDER --text chapter.txt --words -o words.csv\n"
      "  foxscope eval import results.npz -o eval.h5");
  eval->require_subcommand(1);
  addEvalLossCommand(*eval, parsed);
  addEvalHeadsCommand(*eval, parsed);
  addEvalAtlasCommand(*eval, parsed);
  addEvalNeedleCommand(*eval, parsed);
  addEvalSweepCommand(*eval, parsed);
  addEvalSurprisalCommand(*eval, parsed);
  addEvalImportCommand(*eval, parsed);
}

}  // namespace foxscope::cli
