#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/curve_geometry.h"
#include "app/figure/figure_format.h"
#include "backend/trace/trace.h"

namespace foxscope::figure {

enum class LineStyle { solid, dashed };

/// One curve; NaN in x or y is a gap.
struct Curve {
  std::string name;  ///< in the legend; empty: not named there
  std::vector<double> x;
  std::vector<double> y;
  int colour = 0;  ///< of curveColour
  LineStyle line = LineStyle::solid;
  std::vector<double> rawY;  ///< drawn faintly behind it, at the same x; may be empty
};

/// A vertical line at a position that matters, for instance the length that a model was trained on.
struct CurveMarker {
  double x = 0;
  std::string label;
};

/// Curves in axes with a legend.
struct CurveFigure {
  std::string title;  ///< may be empty
  std::string xLabel;
  std::string yLabel;
  AxisScale xScale = AxisScale::linear;  ///< logarithmic leaves out what is not above 0
  std::vector<Curve> curves;
  std::vector<CurveMarker> markers;
  std::optional<AxisLimits> xLimits;               ///< absent: all of the curves
  std::optional<AxisLimits> yLimits;               ///< absent: all of the curves and a little more
  std::string command;                             ///< how to make the picture again; goes into the file's metadata
  std::vector<std::shared_ptr<const Trace>> runs;  ///< what the curves were read from; into the metadata as well
};

/// Draws the curves without a display, from any thread while a Qt application runs. The legend stands where it covers
/// no curve, or least where limits of y were chosen.
/// @returns the bytes of the file; the same figure and format give the same bytes
/// @throws ShapeError for a curve whose x and y differ in size; UsageError for a format that is not valid or has no
/// room
///         for curves, and limits that are none; Error in a build without Qt
std::string drawCurves(const CurveFigure& figure, const FigureFormat& format);

}  // namespace foxscope::figure
