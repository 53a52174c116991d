#pragma once

#include <span>

#include "app/figure/figure_style.h"
#include "backend/eval/sweep_file.h"

namespace foxscope::figure {

/// Every head of a model as a cell of a grid, layers downwards, coloured by what changing it does to the loss: red hurts,
/// blue helps, on one scale for all sweeps. Cells say the value and its standard error where there is room, else a dot
/// marks those within two errors of 0.
/// @throws UsageError where there are no sweeps
DrawnFigure drawSweep(std::span<const SweepEvaluation> sweeps, const FigureStyle& style);

}  // namespace foxscope::figure
