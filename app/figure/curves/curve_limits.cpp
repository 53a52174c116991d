#include "app/figure/curves/curve_limits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kMarginOfY = 0.04;
constexpr double kMarginOfPoints = 0.08;  // a disc on the highest value is whole on the smallest axes

void requireShape(const Curve& curve) {
  const auto require = [&](const char* name, std::size_t size) {
    if (size != curve.x.size()) {
      throw ShapeError(
          fmt::format("[drawCurves] curve '{}': {} values of {} for {} of x", curve.name, size, name, curve.x.size()));
    }
  };
  require("y", curve.y.size());
  if (!curve.rawY.empty()) require("rawY", curve.rawY.size());
  if (!curve.bandLower.empty() || !curve.bandUpper.empty()) {
    require("bandLower", curve.bandLower.size());
    require("bandUpper", curve.bandUpper.size());
  }
}

AxisLimits chosen(const AxisLimits& limits, const char* axis, AxisScale scale) {
  if (!std::isfinite(limits.lower) || !std::isfinite(limits.upper) || limits.lower >= limits.upper) {
    throw UsageError(
        fmt::format("{} axis from {:g} to {:g}: the lower must be below the upper", axis, limits.lower, limits.upper));
  }
  if (scale == AxisScale::logarithmic && limits.lower <= 0) {
    throw UsageError(
        fmt::format("{} axis from {:g} to {:g}: a logarithmic axis begins above 0", axis, limits.lower, limits.upper));
  }
  return limits;
}

// Calls it with every point that the axes can show, of the curves and their raw lines.
void forEachPoint(const CurvePlot& figure, const std::function<void(double x, double y)>& visit) {
  const auto along = [&](const std::vector<double>& xs, const std::vector<double>& ys) {
    for (std::size_t index = 0; index < ys.size(); ++index) {
      const double x = xs[index];
      if (!std::isfinite(x) || !std::isfinite(ys[index])) continue;
      if (figure.xScale == AxisScale::logarithmic && x <= 0) continue;
      if (figure.yScale == AxisScale::logarithmic && ys[index] <= 0) continue;
      visit(x, ys[index]);
    }
  };
  for (const Curve& curve : figure.curves) {
    requireShape(curve);
    along(curve.x, curve.y);
    along(curve.x, curve.rawY);
    along(curve.x, curve.bandLower);
    along(curve.x, curve.bandUpper);
  }
}

struct Extent {
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();
  void add(double value) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
};

}  // namespace

bool hasPoints(const CurvePlot& figure) {
  bool any = false;
  forEachPoint(figure, [&](double /*x*/, double /*y*/) { any = true; });
  return any;
}

AxisLimits limitsOfX(const CurvePlot& figure) {
  if (figure.xLimits) return chosen(*figure.xLimits, "x", figure.xScale);
  if (!figure.categories.empty()) return {-0.5, static_cast<double>(figure.categories.size()) - 0.5};
  Extent extremes;
  forEachPoint(figure, [&](double x, double /*y*/) { extremes.add(x); });
  const bool logarithmic = figure.xScale == AxisScale::logarithmic;
  if (extremes.lowest > extremes.highest) return logarithmic ? AxisLimits{1, 10} : AxisLimits{0, 1};
  if (extremes.lowest < extremes.highest) return {extremes.lowest, extremes.highest};
  return logarithmic ? AxisLimits{extremes.lowest / 2, extremes.lowest * 2}
                     : AxisLimits{extremes.lowest - 0.5, extremes.lowest + 0.5};
}

AxisLimits limitsOfY(const CurvePlot& figure) {
  if (figure.yLimits) return chosen(*figure.yLimits, "y", figure.yScale);
  const AxisLimits x = limitsOfX(figure);
  const bool points =
      std::ranges::any_of(figure.curves, [](const Curve& curve) { return curve.line == LineStyle::points; });
  const double share = points ? kMarginOfPoints : kMarginOfY;
  Extent extremes;
  forEachPoint(figure, [&](double atX, double y) {
    if (atX >= x.lower && atX <= x.upper) extremes.add(y);
  });
  if (figure.yScale == AxisScale::logarithmic) {
    if (extremes.lowest > extremes.highest) return {1, 10};
    const double factor = std::max(std::pow(extremes.highest / extremes.lowest, share), 1.05);
    return {extremes.lowest / factor, extremes.highest * factor};
  }
  if (extremes.lowest > extremes.highest) return {0, 1};
  const double size = std::max(std::abs(extremes.lowest), std::abs(extremes.highest));
  double margin = share * (extremes.highest - extremes.lowest);
  if (margin <= 1e-12 * size) margin = size > 0 ? 0.05 * size : 0.5;
  return {extremes.lowest - margin, extremes.highest + margin};
}

}  // namespace foxscope::figure
