#pragma once

#include <optional>
#include <span>

#include "app/figure/figure_style.h"
#include "backend/eval/sweep/sweep_file.h"

namespace foxscope::figure {

/// Where the colours of changes end.
struct SweepLimits {
  double limit = 1;
  bool cut = false;  ///< some changes are larger
};
/// The largest change, or, where a few are far beyond the rest, what nine heads of ten stay within: a head that a model
/// cannot do without would leave the others white.
SweepLimits sweepLimits(std::span<const double> changes);

/// Every head of a model as a cell of a grid, layers downwards, coloured by what changing it does to the loss: red
/// hurts, blue helps, on one scale for all sweeps; its title says of which model, change and text. Cells say the value
/// and its standard error where there is room, else a dot marks those whose 95 % interval holds 0. With a false
/// discovery rate a dot marks those that are not found at it, beside the value too.
/// @param rate  of false discoveries
/// @throws UsageError where there are no sweeps, and for a rate that is none
DrawnFigure drawSweep(std::span<const SweepEvaluation> sweeps, const FigureStyle& style,
                      std::optional<double> rate = {});

/// The same as `foxscope figure sweep` asks for it.
std::optional<DrawnFigure> drawSweep(struct FigureRequest& request);

}  // namespace foxscope::figure
