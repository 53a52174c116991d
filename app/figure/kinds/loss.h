#pragma once

#include <optional>
#include <span>

#include "app/figure/figure_style.h"
#include "app/figure/kinds/loss_source.h"

namespace foxscope::figure {

struct FigureSpec;

/// The options of `drawLoss` and `drawAblation`.
struct LossOptions {
  std::optional<std::int64_t> smooth;       ///< width of the moving average, odd; absent: by length and windows
  std::optional<std::int64_t> trainLength;  ///< a dashed line there
  CurveChoice curves;
};

/// @throws UsageError for what cannot be understood
LossOptions lossOptionsOf(const FigureSpec& spec);

/// The moving average's width: what was chosen, or 101 as in the paper, 1001 for few windows, less for short ones.
/// @throws UsageError for a width that is even, below 1, or more than half of the positions
std::int64_t smoothingWidth(std::span<const LossSource> sources, const std::optional<std::int64_t>& chosen);

/// The axis of positions, a line at the training length, and the smoothed L(p) of every source with its error.
CurvePlot lossPlot(std::span<const LossSource> sources, const LossOptions& options, std::int64_t smooth,
                   const FigureStyle& style = {});

/// L(p) of several models over one axis.
/// @throws UsageError for sources that are not comparable, as requireComparable, and names that do not exist
DrawnFigure drawLoss(std::span<const LossSource> sources, const LossOptions& options, const FigureStyle& style);

/// The same as `foxscope figure loss` asks for it.
std::optional<DrawnFigure> drawLoss(struct FigureRequest& request);

}  // namespace foxscope::figure
