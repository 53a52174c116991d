#include <CLI/CLI.hpp>

#include "app/cli/eval_command.h"
#include "backend/base/error.h"

namespace foxscope::cli {

void addEvalLossCommand(CLI::App& eval, Selection& selection) {
  CLI::App* command =
      addSubcommand(eval, selection, "loss", "Losses of models over windows of a corpus",
                    "  foxscope eval loss --model FOLDER --corpus books.jsonl.xz --windows 24 -o eval.h5");
  command->callback([&selection] {
    selection.action = [](const Session&) -> int {
      throw UsageError("eval loss: this command is not in this version: see foxscope eval --help");
    };
  });
}

}  // namespace foxscope::cli
