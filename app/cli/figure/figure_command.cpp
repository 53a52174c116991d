#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/figure/figure_kind.h"
#include "app/cli/parse_error.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

std::vector<const FigureKind*> kinds() {
  return {&kLossFigure,    &kPerplexityFigure, &kAblationFigure, &kMapsFigure,     &kGridFigure,
          &kCompareFigure, &kTextFigure,       &kDecayFigure,    &kDistanceFigure, &kLabelsFigure,
          &kNeedleFigure,  &kSweepFigure,      &kSaliencyFigure, &kTrainingFigure};
}

std::vector<std::string> kindNames() {
  std::vector<std::string> names;
  for (const FigureKind* kind : kinds()) names.emplace_back(kind->name);
  return names;
}

}  // namespace

const FigureKind& figureKind(const std::string& word) {
  for (const FigureKind* kind : kinds()) {
    if (kind->name == word) return *kind;
  }
  const std::vector<std::string> names = kindNames();
  throw UsageError(
      fmt::format("figure {}: there is no such kind: {}use {}", word, didYouMean(word, names), fmt::join(names, ", ")));
}

void addFigureCommand(CLI::App& program, Selection& selection) {
  CLI::App* figure = addSubcommand(program, selection, "figure", "Draw a figure for a paper: .pdf, .svg or .png",
                                   "  foxscope figure maps run.h5 -o maps.pdf\n"
                                   "  foxscope figure maps --help");
  for (const FigureKind* kind : kinds()) {
    CLI::App* command = addSubcommand(*figure, selection, kind->name, kind->description, kind->examples);
    kind->add(*command, selection);
  }
  addFigureSpec(*figure, selection);
  // A word that is no kind is answered here, with those that are.
  figure->allow_extras();
  figure->callback([figure] {
    if (!figure->get_subcommands().empty()) return;
    const auto words = figure->remaining();
    if (words.empty()) throw UsageError(fmt::format("figure: which kind?: use {}", fmt::join(kindNames(), ", ")));
    (void)figureKind(words.front());
  });
}

}  // namespace foxscope::cli
