#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/cli/map_options.h"
#include "app/figure/kinds/saliency.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct SaliencyArguments {
  FigureOptions figure;
  std::optional<std::string> model;
  std::string head;
  std::string rows;
  std::string by;
};

std::optional<SaliencyNumber> parseSaliencyNumber(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const SaliencyNumber number : kSaliencyNumbers) {
    if (name == to_string(number)) return number;
  }
  throw UsageError(fmt::format("--by {}: use saliency_scale, saliency_absolute or saliency_per_nat", name));
}

int drawSaliency(const SaliencyArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto run = chooseRun(arguments.figure, arguments.model, notes);
    figure::SaliencyOptions options;
    if (!arguments.head.empty()) {
      const auto [layer, head] = parseHead("--head", arguments.head);
      options.head = figure::HeadIndex{layer, head};
    }
    if (!arguments.rows.empty()) options.positions = parseRange("--rows", arguments.rows, run->info().length);
    options.number = parseSaliencyNumber(arguments.by);
    return figure::drawSaliency(run, options, style, session.job());
  });
}

void addSaliency(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<SaliencyArguments>();
  command.add_option("file", arguments->figure.files, "Run file with saliency")->type_name("RUN.h5")->required();
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  command
      .add_option("--head", arguments->head,
                  "Head whose saliency tints the passage (default: the one of the largest number)")
      ->type_name("L:H");
  command
      .add_option(
          "--by", arguments->by,
          "Number of each head: saliency_absolute, the sum of |g log f|; saliency_scale, the sum of g log f, of "
          "which scale=0.9 changes the loss by -0.1; saliency_per_nat, the mean of |g| (default: "
          "saliency_absolute, without gates saliency_per_nat)")
      ->type_name("NUMBER");
  command
      .add_option("--rows", arguments->rows,
                  "Positions from A up to, not including, B (default: the first, or those that a target ends with)")
      ->type_name("A:B");
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawSaliency(*arguments, session); };
  });
}

}  // namespace

const FigureKind kSaliencyFigure = {
    "saliency", "What the loss owes to each head's gates, and a passage tinted by one head's",
    "  foxscope figure saliency run.h5 -o saliency.pdf\n"
    "  foxscope figure saliency run.h5 --head 7:2 --rows 200:360 --width icml -o saliency.pdf",
    addSaliency};

}  // namespace foxscope::cli
