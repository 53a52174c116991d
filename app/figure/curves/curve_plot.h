#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_geometry.h"

namespace foxscope::figure {

/// How the values of a curve are drawn; points: one each, nothing between them.
enum class LineStyle { solid, dashed, dotted, dashDotted, points };

/// The shape that a value is drawn as where the line consists of points.
enum class PointShape { disc, square, triangle, diamond, ring, cross, down };

/// One curve; NaN in x or y is a gap.
struct Curve {
  std::string name;  ///< in the legend; empty: not named there
  std::vector<double> x;
  std::vector<double> y;
  int colour = 0;  ///< of curveColour
  LineStyle line = LineStyle::solid;
  PointShape shape = PointShape::disc;
  double pointSize = 1;           ///< of points, beside the usual size
  std::vector<double> rawY;       ///< drawn faintly behind it, at the same x; may be empty
  std::vector<double> bandLower;  ///< [x] edges of a band around it, or of bars of points, for errors; may be empty
  std::vector<double> bandUpper;  ///< likewise
  std::optional<Rgb> ownColour = std::nullopt;  ///< instead of `colour`
  std::string series =
      {};  ///< the name in a table of its numbers, where the legend is not the plot's own; empty: `name`
  std::vector<std::string> pointNames = {};    ///< [x] of points that are something, as "7:2"; may be empty
  std::vector<std::size_t> writtenNames = {};  ///< points whose names stand beside them, the most important first
};

/// Whether any of the curves has a band.
inline bool haveBands(std::span<const Curve> curves) {
  return std::any_of(curves.begin(), curves.end(), [](const Curve& curve) { return !curve.bandLower.empty(); });
}

/// A vertical line at a position that matters, for instance the length that a model was trained on.
struct CurveMarker {
  double x = 0;
  std::string label;
};

/// Where a legend goes: inside the axes, where it covers nothing, and else above; above them in any case; nowhere.
enum class LegendPlace { automatic, above, none };

/// Curves in axes with a legend.
struct CurvePlot {
  std::string title;  ///< above the axes; may be empty
  std::string xLabel;
  std::string yLabel;
  std::string quantity = {};             ///< in a table of its numbers, where the axis has no label; empty: `yLabel`
  AxisScale xScale = AxisScale::linear;  ///< logarithmic leaves out what is not above 0
  AxisScale yScale = AxisScale::linear;  ///< likewise
  std::vector<Curve> curves;
  std::vector<CurveMarker> markers;
  std::optional<double> level;           ///< a horizontal line, for instance at no difference
  std::optional<AxisLimits> xLimits;     ///< absent: all of the curves
  std::optional<AxisLimits> yLimits;     ///< absent: all of the curves and a little more
  std::vector<double> xTicks;            ///< values to label; empty: by the limits
  std::vector<double> yTicks;            ///< likewise
  std::vector<std::string> categories;   ///< what is written at x = 0, 1, ... instead of numbers; may be empty
  enum class XLabels { shown, hidden };  ///< hidden where another panel below has the same axis
  XLabels xLabels = XLabels::shown;
  std::string note = {};  ///< last in the legend, lines of it: what lines and bands are; may be empty
  LegendPlace legend = LegendPlace::automatic;
  double heightOfWidth = 0.58;  ///< of the axes, where no height was chosen
};

}  // namespace foxscope::figure
