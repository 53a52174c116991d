#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/command.h"
#include "app/description/number_text.h"
#include "backend/base/plural.h"
#include "backend/file/run_file.h"

namespace foxscope::cli {
namespace {

std::string checkedText(const Trace& trace, const RunCheckReport& report) {
  const TraceInfo& info = trace.info();
  std::string text = fmt::format("{}: {} {}, {} {}: ", info.name, countText(info.length), plural(info.length, "token"),
                                 info.layers, plural(info.layers, "layer"));
  if (report.gates > 0) text += fmt::format("c of {} {} never rises, ", report.gates, plural(report.gates, "head"));
  if (report.unknown > 0) {
    text += fmt::format("{} {} of the attention {} not a number, ", report.unknown, plural(report.unknown, "row"),
                        report.unknown == 1 ? "is" : "are");
  }
  if (report.rows == 0) return text + "there are no rows of attention to add up\n";
  return text + fmt::format("{} {} of the attention {} to 1 within {:.1e}\n", report.rows, plural(report.rows, "row"),
                            report.rows == 1 ? "sums" : "sum", report.largest_error);
}

}  // namespace

void addCheckCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = addSubcommand(program, parsed, "check", "Hold the arrays of a run file against one another",
                                    "  foxscope check run.h5");
  command->footer(
      "c must be a sum of log f, which never rises, and four rows of the attention of every head must sum to 1, made "
      "of\n"
      "query, key, softmax_scale, c and log_normalizer. Every command that reads a run file does the same first.\n\n" +
      command->get_footer());
  command->add_option("file", *file, "Run file")->type_name("RUN.h5")->required();
  command->callback([file, &parsed] {
    parsed.action = [file](const CommandContext&) {
      const RunFile run = RunFile::open(*file);
      std::string text;
      for (std::size_t n = 0; n < run.traces.size(); ++n) text += checkedText(*run.traces[n], run.checks[n]);
      Console::print(text);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace foxscope::cli
