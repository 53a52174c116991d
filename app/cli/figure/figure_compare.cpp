#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/figure/figure_map_options.h"
#include "app/cli/figure/figure_options.h"
#include "app/cli/map_options.h"
#include "app/figure/kinds/compare.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

struct CompareArguments {
  FigureOptions figure;
  FigureMapOptions maps;
  std::vector<std::string> models;
  std::string head;
  std::string with;
};

std::optional<figure::HeadIndex> headOf(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto [layer, head] = parseHead(option, text);
  return figure::HeadIndex{layer, head};
}

int drawCompare(const CompareArguments& arguments, const Session& session) {
  return writeFigure(arguments.figure, session, [&](const figure::FigureStyle& style, Notes& notes) {
    const auto [first, second] = chooseTwoRuns(arguments.figure, arguments.models, notes);
    figure::CompareOptions options;
    options.first = headOf("--head", arguments.head);
    options.second = headOf("--with", arguments.with);
    options.quantities = parseQuantities(arguments.maps.quantities);
    options.rows = parseRange("--rows", arguments.maps.rows, first->info().length);
    options.columns = parseRange("--cols", arguments.maps.columns, first->info().length);
    options.colours = parseColourMap(arguments.maps.colours);
    options.limits = parseColourLimits(arguments.maps.limits);
    return figure::drawCompare(first, second, options, style, session.job());
  });
}

void addCompare(CLI::App& command, Selection& selection) {
  const auto arguments = std::make_shared<CompareArguments>();
  command.add_option("file", arguments->figure.files, "Run files, two models in all")->type_name("RUN.h5")->required();
  command.add_option("--models", arguments->models, "Which two (default: the first two)")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--head", arguments->head, "Head of the first (default: its longest memory)")->type_name("L:H");
  command.add_option("--with", arguments->with, "Head of the second (default: the nearest by distance profile)")
      ->type_name("L:H");
  addFigureMapOptions(command, arguments->maps, "attention, and forget above it where both have a gate");
  addUnchecked(command, arguments->figure.check);
  addFigureOptions(command, arguments->figure);
  command.callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawCompare(*arguments, session); };
  });
}

}  // namespace

const FigureKind kCompareFigure = {"compare", "Heads of two models on the same text, and their difference",
                                   "  foxscope figure compare run.h5 -o compare.pdf\n"
                                   "  foxscope figure compare run.h5 --models fox,base --head 7:2 --with 3:1 -o c.pdf",
                                   addCompare};

}  // namespace foxscope::cli
