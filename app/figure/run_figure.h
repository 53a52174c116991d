#pragma once

#include <string>
#include <vector>

#include "app/figure/figure_kind.h"
#include "app/figure/figure_request.h"

namespace foxscope::figure {

/// A figure of any kind that runs alone can make, with what was chosen of it beside its style: what `foxscope figure
/// KIND RUN.h5...` draws.
struct RunFigure : FigureSpec {
  std::vector<FigureRun> runs;  ///< in the figure's order; one, of kinds that show one

  [[nodiscard]] const FigureKind& row() const { return *findFigureKind(kind); }
  /// The quantities whose colour bars can have limits.
  [[nodiscard]] std::vector<Quantity> quantities() const;
  /// The name of its run in the figure unless a label says otherwise: its name in the file, where no other run has it.
  [[nodiscard]] std::string nameOf(const FigureRun& run) const;
};

/// @returns nothing if the job was stopped
/// @throws as the kind's own function
std::optional<DrawnFigure> drawRunFigure(const RunFigure& figure, const FigureStyle& style, EvaluatedRuns& evaluated,
                                         const Job& job);

/// Adds the options of a kind by which a style differs from the usual one.
void addStyle(const FigureKind& kind, const FigureStyle& style, FigureSpec& spec);

/// The figure as `foxscope figure spec` reads it, with everything that differs from what the command does by itself.
FigureSpec specOf(const RunFigure& figure, const FigureStyle& style);

/// The reason why the command line cannot draw the figure, in one sentence; empty where it can.
std::string commandObstacle(const RunFigure& figure);

enum class Folders { kept, leftOut };
/// The command that draws a spec of these files into a file, as a shell takes it.
std::string commandOf(const FigureSpec& spec, const std::vector<std::string>& files, const std::string& output,
                      Folders folders);
/// The command that draws the figure into this file, likewise.
/// @param folders  left out of what stands in the metadata of a figure
std::string commandOf(const RunFigure& figure, const FigureStyle& style, const std::string& output, Folders folders);

}  // namespace foxscope::figure
