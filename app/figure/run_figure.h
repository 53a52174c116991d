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

/// The figure as `foxscope figure spec` reads it, with everything that differs from what the command does by itself.
FigureSpec specOf(const RunFigure& figure, const FigureStyle& style);

/// The reason why the command line cannot draw the figure, in one sentence; empty where it can.
std::string commandObstacle(const RunFigure& figure);

enum class Folders { kept, leftOut };
/// The command that draws the figure into this file, as a shell takes it.
/// @param folders  left out of what stands in the metadata of a figure
std::string commandOf(const RunFigure& figure, const FigureStyle& style, const std::string& output, Folders folders);

}  // namespace foxscope::figure
