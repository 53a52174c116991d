#pragma once

#include "app/figure/curve_figure.h"

namespace foxscope::figure {

/// Whether there is a value to draw.
bool hasPoints(const CurveFigure& figure);

/// Limits of the axes: those chosen, or the extremes of what the axes can show; never empty.
/// @throws ShapeError, UsageError as drawCurves
AxisLimits limitsOfX(const CurveFigure& figure);
AxisLimits limitsOfY(const CurveFigure& figure);

}  // namespace foxscope::figure
