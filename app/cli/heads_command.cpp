#include <optional>

#include <CLI/CLI.hpp>

#include "app/cli/command.h"
#include "app/cli/heads_report.h"
#include "backend/base/error.h"
#include "backend/file/run_file.h"

namespace foxscope::cli {
namespace {

struct HeadsOptions {
  std::string file;
  std::optional<std::string> model;
  std::string device = "auto";
  bool json = false;
  bool csv = false;
};

int printHeads(const HeadsOptions& options, const Session& session) {
  if (options.json && options.csv) throw UsageError("heads: --json and --csv exclude each other: choose one");
  requireCpu(options.device);
  const auto trace = RunFile::open(options.file).trace(options.model);
  const TraceInfo& info = trace->info();
  HeadsReport report{info.name, info.length, {}};
  StatisticsOptions statistics;
  statistics.with_attention = trace->query_key() != nullptr && !trace->source().rows(0)->log_normalizer.empty();
  if (!statistics.with_attention) {
    session.console.note(
        options.file +
        ": queries and keys or row normalisers were not kept, so there is nothing to say of attention: run "
        "again with --keep gates,rows,qk");
  }
  Job job = session.job();
  job.report = nullptr;
  const std::int64_t heads = std::int64_t{info.layers} * info.heads;
  session.console.setSubject(info.name);
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      session.console.progress({static_cast<std::int64_t>(report.heads.size()), heads, "heads", "statistics"});
      auto result = head_statistics({trace, layer, head}, statistics, job);
      if (!result) return kInterrupted;
      report.heads.push_back(std::move(*result));
    }
  }
  session.console.endProgress();
  Console::write(options.json ? headsJson(report) : options.csv ? headsCsv(report) : headsTable(report));
  return kDone;
}

}  // namespace

void addHeadsCommand(CLI::App& program, Selection& selection) {
  const auto options = std::make_shared<HeadsOptions>();
  CLI::App* command = addSubcommand(program, selection, "heads", "Statistics of every head of a run",
                                    "  foxscope heads run.h5\n"
                                    "  foxscope heads both.h5 --model fox --csv > heads.csv\n"
                                    "  foxscope heads run.h5 --json");
  command->add_option("file", options->file, "Run file")->type_name("RUN.h5")->required();
  command->add_option("--model", options->model, "Which model, where the file holds several")->type_name("NAME");
  command->add_option("--device", options->device, "auto or cpu (default: auto)")->type_name("DEVICE");
  command->add_flag("--json", options->json, "Print every statistic as JSON");
  command->add_flag("--csv", options->csv, "Print every statistic as CSV");
  command->callback([options, &selection] {
    selection.action = [options](const Session& session) { return printHeads(*options, session); };
  });
}

}  // namespace foxscope::cli
