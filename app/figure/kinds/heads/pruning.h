#pragma once

#include <optional>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/job.h"
#include "backend/map/statistics/pruning_bound.h"

namespace foxscope::figure {

/// The options of `drawPruning`.
struct PruningOptions {
  std::vector<HeadIndex> heads = {};     ///< empty: those of which a quarter, half and three quarters are skipped
  Quantity quantity = Quantity::forget;  ///< that the maps show
  std::optional<Range> rows = {};        ///< queries; absent: all
  std::optional<Range> columns = {};     ///< keys
  double tolerance = kPruningTolerance;  ///< share of a row's attention
  const ColourMap* colours = nullptr;    ///< null: by quantity
  std::vector<ColourLimits> limits = {};
};

/// Maps of some heads with the boundary of adaptive computation pruning (pruning_bound.h): entries left of the line are
/// skipped. Below them the share of all entries of each head that is.
/// @returns nothing if the job was stopped
/// @throws UsageError for a model without gates, heads and positions that do not exist; Error for parts that were not
///         kept
std::optional<DrawnFigure> drawPruning(const RunOnDevice& trace, const PruningOptions& options,
                                       const FigureStyle& style, const Job& job);

/// The same as `foxscope figure pruning` asks for it.
std::optional<DrawnFigure> drawPruning(struct FigureRequest& request);

}  // namespace foxscope::figure
