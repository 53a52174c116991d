#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/cli/command.h"
#include "app/cli/values.h"
#include "app/description/view_lacks.h"
#include "backend/base/count_text.h"
#include "backend/base/error.h"
#include "backend/base/number_ranges.h"
#include "backend/base/plural.h"
#include "backend/file/schema_check.h"

namespace foxscope::cli {
namespace {

using Kind = SchemaFinding::Kind;

/// `foxscope check`, as typed.
struct CheckOptions {
  std::string file;
  bool json = false;
};

std::string findingsText(const SchemaReport& report, Kind kind) {
  std::string text;
  std::uint64_t shown = 0;
  for (const SchemaFinding& finding : report.findings) {
    if (finding.kind != kind) continue;
    text += fmt::format("{}{}: expected {}, found {}\n", kind == Kind::note ? "note: " : "", finding.path,
                        finding.expected, finding.found);
    ++shown;
  }
  const std::uint64_t all = kind == Kind::broken ? report.broken : report.notes;
  if (all > shown) text += fmt::format("{}and {} more\n", kind == Kind::note ? "note: " : "", all - shown);
  return text;
}

/// Tells what check_run saw of a model.
std::string sumsText(const RunCheckReport& sums) {
  std::string text = ": ";
  if (sums.gates > 0) text += fmt::format("c of {} {} never rises, ", sums.gates, plural(sums.gates, "head"));
  if (sums.unknown > 0) {
    text += fmt::format("{} {} of the attention {} not a number, ", sums.unknown, plural(sums.unknown, "row"),
                        sums.unknown == 1 ? "is" : "are");
  }
  if (sums.rows == 0) return text + "there are no rows of attention to add up";
  return text + fmt::format("{} {} of the attention {} to 1 within {:.1e}", sums.rows, plural(sums.rows, "row"),
                            sums.rows == 1 ? "sums" : "sum", sums.largest_error);
}

std::string modelText(const SchemaModel& model) {
  const TraceInfo& info = model.info;
  if (!model.looked_at) return fmt::format("{}: not looked at, as its sizes are not known\n", info.name);
  std::string text =
      fmt::format("{}: {} {}, {} {}{}\n", info.name, count_text(info.length), plural(info.length, "token"), info.layers,
                  plural(info.layers, "layer"), model.sums ? sumsText(*model.sums) : "");
  if (const auto& layers = model.not_looked_at; !layers.empty()) {
    text += fmt::format("  not looked at, as the mixer is not known: layer{} {}\n", layers.size() == 1 ? "" : "s",
                        ranges_text(layers));
  }
  for (const ViewLack& lack : viewLacks(model)) {
    text += lack.computed
                ? fmt::format("  {} are computed when it is opened: there are no {}\n", lack.view,
                              fmt::join(lack.arrays, ", "))
                : fmt::format("  without {}: there are no sound {}\n", lack.view, fmt::join(lack.arrays, ", "));
  }
  return text;
}

std::string checkText(const SchemaReport& report) {
  std::string text = findingsText(report, Kind::broken) + findingsText(report, Kind::note);
  for (const SchemaModel& model : report.models) text += modelText(model);
  return text;
}

std::string checkJson(const std::string& file, const SchemaReport& report) {
  auto findings = nlohmann::ordered_json::array();
  for (const SchemaFinding& finding : report.findings) {
    findings.push_back({{"kind", finding.kind == Kind::broken ? "broken" : "note"},
                        {"path", finding.path},
                        {"expected", finding.expected},
                        {"found", finding.found}});
  }
  auto models = nlohmann::ordered_json::array();
  for (const SchemaModel& model : report.models) {
    auto lacks = nlohmann::ordered_json::array();
    for (const ViewLack& lack : viewLacks(model)) {
      lacks.push_back({{"view", lack.view}, {"arrays", lack.arrays}, {"computed", lack.computed}});
    }
    nlohmann::ordered_json described{
        {"name", model.info.name}, {"tokens", model.info.length}, {"layers", model.info.layers}};
    described["looked_at"] = model.looked_at;
    described["layers_not_looked_at"] = model.not_looked_at;
    if (model.sums) {
      described["heads_whose_c_falls"] = model.sums->gates;
      described["rows_that_sum_to_1"] = model.sums->rows;
      described["rows_that_are_not_a_number"] = model.sums->unknown;
      described["largest_error"] = jsonNumber(model.sums->largest_error);
    }
    described["lacks"] = std::move(lacks);
    models.push_back(std::move(described));
  }
  const nlohmann::ordered_json all{
      {"file", file},          {"keeps_schema", report.broken == 0}, {"broken", report.broken},
      {"notes", report.notes}, {"findings", std::move(findings)},    {"models", std::move(models)}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

int checkFile(const CheckOptions& options, const CommandContext& context) {
  context.console.setSubject(options.file);
  const std::optional<SchemaReport> report = check_schema(options.file, context.job());
  if (!report) return kInterrupted;
  context.console.endProgress();
  options.json ? Console::write(checkJson(options.file, *report)) : Console::print(checkText(*report));
  if (report->broken == 0) return kDone;
  throw Error(fmt::format("{}: {} {} the schema of run files (docs/files.md): correct what wrote the file",
                          options.file, report->broken, report->broken == 1 ? "finding breaks" : "findings break"));
}

}  // namespace

void addCheckCommand(CLI::App& program, ParsedCommand& parsed) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* command =
      addSubcommand(program, parsed, "check", "Hold a run file against the schema, and its arrays against one another",
                    "  foxscope check run.h5\n"
                    "  foxscope check theirs.h5 --json");
  command->footer(
      "Everything that is not as docs/files.md has it is a line: the place in the file, what was expected, what is\n"
      "there. A note breaks nothing. c must be a sum of log f, which never rises, and where all else is right four "
      "rows\n"
      "of the attention of every head must sum to 1, made of query, key, softmax_scale, c and log_normalizer. Then it\n"
      "says of each model what views will lack. Exit status: 0 the file keeps the schema, 1 it does not.\n\n" +
      command->get_footer());
  command->add_option("file", options->file, "Run file, of Foxscope or of another program")
      ->type_name("RUN.h5")
      ->required();
  command->add_flag("--json", options->json, "Print as JSON");
  command->callback([options, &parsed] {
    parsed.action = [options](const CommandContext& context) { return checkFile(*options, context); };
  });
}

}  // namespace foxscope::cli
