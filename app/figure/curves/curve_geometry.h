#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace foxscope::figure {

/// A place on the page, points.
struct CurvePoint {
  double x = 0;
  double y = 0;
  bool operator==(const CurvePoint&) const = default;
};

/// Connected points of a curve; a single one where its neighbours are missing.
using Stroke = std::vector<CurvePoint>;

enum class AxisScale { linear, logarithmic };

/// The values at the two ends of an axis.
struct AxisLimits {
  double lower = 0;
  double upper = 1;
};

/// From values to an axis: 0 at the lower limit, 1 at the upper; NaN for values that a logarithmic axis cannot show.
double axisPosition(double value, const AxisLimits& limits, AxisScale scale);

/// Values to points of a rectangle on the page, y upwards.
struct PlotArea {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  AxisLimits x;
  AxisLimits y;
  AxisScale xScale = AxisScale::linear;
  AxisScale yScale = AxisScale::linear;

  [[nodiscard]] CurvePoint at(double xValue, double yValue) const;
};

/// The curve through x, y (of one size) as strokes inside the area: interrupted where a value is NaN, infinite or
/// cannot be shown, cut at the area's edges, and thinned to what columns of this width can show (their first, lowest,
/// highest and last point), so that a curve of any length draws fast and looks the same.
std::vector<Stroke> strokesOf(std::span<const double> x, std::span<const double> y, const PlotArea& area,
                              double columnWidth);

/// The upper and lower edge of a band, of equal size, to be closed.
struct Band {
  Stroke upper;
  Stroke lower;
};

/// The band between two edges at the same x, likewise interrupted, cut and thinned: of every column its first place,
/// with the highest upper and the lowest lower edge in it.
std::vector<Band> bandsOf(std::span<const double> x, std::span<const double> lower, std::span<const double> upper,
                          const PlotArea& area, double columnWidth);

/// How many segments of the stroke (or its only point) have a part inside the area's rectangle.
std::size_t segmentsInside(const Stroke& stroke, const PlotArea& area);

}  // namespace foxscope::figure
