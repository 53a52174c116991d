#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_options.h"
#include "app/cli/map_options.h"
#include "app/figure/kinds/passage.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct TextArguments {
  FigureOptions figure;
  std::optional<std::string> model;
  std::string tint = "loss";
  std::string head;
  std::string rows;
  std::optional<std::int64_t> position;
};

figure::PassageTint parsePassageTint(const std::string& text) {
  if (text == "loss") return figure::PassageTint::loss;
  if (text == "gate") return figure::PassageTint::gate;
  if (text == "forget") return figure::PassageTint::forget;
  if (text == "attention") return figure::PassageTint::attention;
  throw UsageError(fmt::format("--tint {}: use loss, gate, forget or attention", text));
}

int drawText(const TextArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto run = chooseRun(arguments.figure, arguments.model, notes);
    figure::PassageOptions options;
    options.tint = parsePassageTint(arguments.tint);
    if (!arguments.head.empty()) {
      const auto [layer, head] = parseHead("--head", arguments.head);
      options.head = figure::HeadIndex{layer, head};
    }
    if (!arguments.rows.empty()) options.positions = parseRange("--rows", arguments.rows, run->info().length);
    options.query = arguments.position;
    return figure::drawPassage(run, options, style, session.job());
  });
}

void addText(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<TextArguments>();
  command.add_option("file", arguments->figure.files, "Run file")->type_name("RUN.h5")->required();
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  command.add_option("--tint", arguments->tint, "loss, gate (1 - f), forget or attention (default: loss)")
      ->type_name("TINT");
  command.add_option("--head", arguments->head, "Head of all but loss (default: one of middle memory)")
      ->type_name("L:H");
  command
      .add_option("--position", arguments->position, "Query of forget and attention (default: the last that is shown)")
      ->type_name("P");
  command.add_option("--rows", arguments->rows, "Positions from A up to, not including, B (default: the first)")
      ->type_name("A:B");
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawText(*arguments, session); };
  });
}

}  // namespace

const FigureKind kTextFigure = {
    "text", "A passage with its tokens tinted by loss, gate, F or attention",
    "  foxscope figure text run.h5 -o text.pdf\n"
    "  foxscope figure text run.h5 --tint attention --head 6:1 --rows 200:320 --position 310 -o text.pdf",
    addText};

}  // namespace foxscope::cli
