#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/run_command.h"

namespace foxscope::cli {

void addRunCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = addSubcommand(
      program, parsed, "run", "Run one or more models on one text and write a run file",
      "  foxscope run --model resources/models/fox-pro-12m --text chapter.txt -o run.h5\n"
      "  foxscope run --model fox=FOLDER --model base=owner/name --text chapter.txt --limit 4096 -o both.h5\n"
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
      ->add_option("--limit", options->limit,
                   "Only the first N tokens; the file holds the part of the text that they are")
      ->type_name("N");
  addRunningOptions(*command, *options, "the sequence");
  addInterventions(*command, *options,
                   "Change gates or outputs; * for all layers or heads; KIND is one, constant=f, mean, scale=s, zero@p "
                   "or cut; repeatable");
  command
      ->add_option("--keep", options->keep,
                   fmt::format("Arrays that the file holds: {} (default: {})", keep_words(","), options->keep))
      ->type_name("ARRAY,...");
  command
      ->add_option(
          "--saliency", options->saliency,
          "With --keep saliency: gradients of the mean loss of positions A up to B (default: of all); gates behind "
          "B have none, so --limit B leaves nothing out")
      ->type_name("A:B");
  command
      ->add_option("--invalid-utf8", options->invalidUtf8,
                   "Bytes of the text that are not UTF-8: refuse, or replace by U+FFFD (default: refuse)")
      ->type_name("refuse|replace");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return runModels(*options, context); };
  });
}

}  // namespace foxscope::cli
