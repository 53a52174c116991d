#include <CLI/CLI.hpp>

#include "app/cli/figure_kind.h"
#include "app/cli/figure_map_options.h"
#include "app/cli/figure_options.h"
#include "app/cli/map_options.h"
#include "app/figure/kinds/maps.h"

namespace foxscope::cli {
namespace {

struct MapsArguments {
  FigureOptions figure;
  FigureMapOptions maps;
  std::optional<std::string> model;
  std::vector<std::string> heads;
  std::optional<double> threshold;
};

int drawMaps(const MapsArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto run = chooseRun(arguments.figure, arguments.model, notes);
    figure::MapsOptions options;
    for (const std::string& text : arguments.heads) {
      const auto [layer, head] = parseHead("--heads", text);
      options.heads.push_back({layer, head});
    }
    if (!arguments.maps.quantities.empty()) options.quantities = parseQuantities(arguments.maps.quantities);
    options.rows = parseRange("--rows", arguments.maps.rows, run->info().length);
    options.columns = parseRange("--cols", arguments.maps.columns, run->info().length);
    options.threshold = arguments.threshold;
    options.colours = parseColourMap(arguments.maps.colours);
    options.limits = parseColourLimits(arguments.maps.limits);
    return figure::drawMaps(run, options, style, session.job());
  });
}

void addMaps(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<MapsArguments>();
  command.add_option("file", arguments->figure.files, "Run file")->type_name("RUN.h5")->required();
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  command.add_option("--heads", arguments->heads, "Heads to show (default: of short, middle and long memory)")
      ->type_name("L:H,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  addFigureMapOptions(command, arguments->maps, "forget,attention");
  command.add_option("--threshold", arguments->threshold, "Leave smaller entries of attention white")->type_name("A");
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawMaps(*arguments, session); };
  });
}

}  // namespace

const FigureKind kMapsFigure = {"maps", "F above A of some heads",
                                "  foxscope figure maps run.h5 -o maps.pdf\n"
                                "  foxscope figure maps run.h5 --heads 2:1,6:1,7:2 --width icml-wide -o maps.pdf\n"
                                "  foxscope figure maps run.h5 --rows 100:130 --cols 100:130 -o tokens.svg",
                                addMaps};

}  // namespace foxscope::cli
