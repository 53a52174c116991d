#pragma once

#include "app/figure/curves/curve_plot.h"

namespace foxscope::figure {

/// Whether there is a value to draw.
bool hasPoints(const CurvePlot& figure);

/// Limits of the axes: those chosen, or the extremes of what the axes can show; never empty.
/// @throws ShapeError, UsageError as drawCurves
AxisLimits limitsOfX(const CurvePlot& figure);
AxisLimits limitsOfY(const CurvePlot& figure);

}  // namespace foxscope::figure
