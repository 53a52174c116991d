#include <algorithm>

#include <CLI/CLI.hpp>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_map_options.h"
#include "app/cli/figure/figure_options.h"
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

/// "L:H", or "MODEL:L:H".
figure::MapsHead parseMapsHead(const std::string& text, const MapsArguments& arguments,
                               const std::vector<std::shared_ptr<const Trace>>& runs) {
  const std::size_t last = text.rfind(':');
  const std::size_t before = last == std::string::npos || last == 0 ? last : text.rfind(':', last - 1);
  if (last == std::string::npos || last == 0 || before == std::string::npos) {
    const auto [layer, head] = parseHead("--heads", text);
    return {{layer, head}, nullptr};
  }
  const auto [layer, head] = parseHead("--heads", text.substr(before + 1));
  return {{layer, head}, namedRun(runs, arguments.figure.files, "--heads", text.substr(0, before))};
}

int drawMaps(const MapsArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto runs = allRuns(arguments.figure);
    figure::MapsOptions options;
    for (const std::string& text : arguments.heads) options.heads.push_back(parseMapsHead(text, arguments, runs));
    const auto named = [](const figure::MapsHead& head) { return head.run != nullptr; };
    // Where every head says whose it is, there is nothing to choose.
    const bool allNamed = !options.heads.empty() && std::all_of(options.heads.begin(), options.heads.end(), named);
    const auto run = allNamed && !arguments.model ? options.heads.front().run
                                                  : chooseRun(arguments.figure, runs, arguments.model, notes);
    if (!arguments.maps.quantities.empty()) options.quantities = parseQuantities(arguments.maps.quantities);
    const auto rangeOf = [&](const char* option, const std::string& text) -> std::optional<Range> {
      if (text.empty()) return std::nullopt;
      return parseRange(option, text, run->info().length);
    };
    options.rows = rangeOf("--rows", arguments.maps.rows);
    options.columns = rangeOf("--cols", arguments.maps.columns);
    options.threshold = arguments.threshold;
    options.colours = parseColourMap(arguments.maps.colours);
    options.limits = parseColourLimits(arguments.maps.limits);
    return figure::drawMaps(run, options, style, session.job());
  });
}

void addMaps(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<MapsArguments>();
  command.add_option("file", arguments->figure.files, "Run files")->type_name("RUN.h5")->required();
  command.add_option("--model", arguments->model, "Which model (default: the first with a gate)")->type_name("NAME");
  command
      .add_option("--heads", arguments->heads,
                  "Heads to show, of other models as MODEL:L:H (default: of short, middle and long memory; without "
                  "--rows and --cols those whose decay can be seen, on a text of many memories its beginning)")
      ->type_name("L:H,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  addFigureMapOptions(command, arguments->maps, "forget,attention");
  command.add_option("--threshold", arguments->threshold, "Leave smaller entries of attention white")->type_name("A");
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawMaps(*arguments, session); };
  });
}

}  // namespace

const FigureKind kMapsFigure = {"maps", "F above A of some heads",
                                "  foxscope figure maps run.h5 -o maps.pdf\n"
                                "  foxscope figure maps run.h5 --heads 2:1,6:1,7:2 --width icml-wide -o maps.pdf\n"
                                "  foxscope figure maps run.h5 --heads fox:7:2,mamba:12:1 -o memories.pdf\n"
                                "  foxscope figure maps run.h5 --rows 100:130 --cols 100:130 -o tokens.svg",
                                addMaps};

}  // namespace foxscope::cli
