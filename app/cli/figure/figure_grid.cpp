#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_map_options.h"
#include "app/cli/figure/figure_options.h"
#include "app/cli/map_options.h"
#include "app/figure/kinds/grid.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct GridArguments {
  FigureOptions figure;
  FigureMapOptions maps;
  std::optional<std::string> model;
};

int drawGrid(const GridArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto run = chooseRun(arguments.figure, arguments.model, notes);
    figure::GridOptions options;
    const auto quantities = parseQuantities(arguments.maps.quantities);
    if (quantities.size() > 1) throw UsageError("--quantity: a grid shows one: draw a figure for each");
    if (!quantities.empty()) options.quantity = quantities.front();
    options.rows = parseRange("--rows", arguments.maps.rows, run->info().length);
    options.columns = parseRange("--cols", arguments.maps.columns, run->info().length);
    options.colours = parseColourMap(arguments.maps.colours);
    options.limits = parseColourLimits(arguments.maps.limits);
    return figure::drawGrid(run, options, style, session.job());
  });
}

void addGrid(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<GridArguments>();
  command.add_option("file", arguments->figure.files, "Run file")->type_name("RUN.h5")->required();
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  addFigureMapOptions(command, arguments->maps, "forget; attention without a gate");
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawGrid(*arguments, session); };
  });
}

}  // namespace

const FigureKind kGridFigure = {"grid", "Every layer and head as a small map: nats forgotten, F, A",
                                "  foxscope figure grid run.h5 -o grid.pdf\n"
                                "  foxscope figure grid run.h5 --quantity attention --rows 0:512 --cols 0:512 -o a.pdf",
                                addGrid};

}  // namespace foxscope::cli
