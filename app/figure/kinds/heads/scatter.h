#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figure/curves/curve_geometry.h"
#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope::figure {

/// The options of `drawScatter`.
struct ScatterOptions {
  std::string x;  ///< names of `EvaluatedHeads::numbers`, "layer" or "head"; empty: by the model
  std::string y;
  /// "label", "layer" or the name of a number, which a colour bar explains; empty: label, where labels are known
  std::string colourBy = {};
  // Absent: logarithmic for numbers above 0 that differ by a factor of 50 and more.
  std::optional<AxisScale> xScale = {};
  std::optional<AxisScale> yScale = {};
  std::optional<AxisScale> colourScale = {};
  std::optional<AxisLimits> xLimits = {};  ///< absent: around all heads
  std::optional<AxisLimits> yLimits = {};
  /// Ends of the colours of layers or of a number; absent: those of the heads that are drawn
  std::optional<double> colourLower = {};
  std::optional<double> colourUpper = {};
  std::size_t names = 2;               ///< heads that are named at each end of each axis
  std::vector<HeadIndex> marked = {};  ///< heads that are ringed and named
  bool modelNamed = false;             ///< above the points
};

/// Heads as points over two of their statistics. A head with a number that its axis has no place for is left out, and
/// counted in a note.
/// @throws UsageError naming the statistics that there are; Error where no head has both numbers
DrawnFigure drawScatter(const EvaluatedHeads& model, const ScatterOptions& options, const FigureStyle& style);

/// The same as `foxscope figure scatter` asks for it.
std::optional<DrawnFigure> drawScatter(struct FigureRequest& request);

}  // namespace foxscope::figure
