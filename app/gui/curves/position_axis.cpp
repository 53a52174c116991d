#include "app/gui/curves/position_axis.h"

#include <algorithm>
#include <cmath>

namespace foxscope::gui::curves {
namespace {

/// Where a coordinate is drawn, up to a constant factor, and back.
double drawn(figure::AxisScale scale, double coordinate) {
  return scale == figure::AxisScale::logarithmic ? std::log(coordinate) : coordinate;
}

double undrawn(figure::AxisScale scale, double place) {
  return scale == figure::AxisScale::logarithmic ? std::exp(place) : place;
}

}  // namespace

double PositionAxis::coordinate(double position) const {
  return first + direction() * (position - static_cast<double>(origin()));
}

double PositionAxis::position(double coordinate) const {
  return static_cast<double>(origin()) + direction() * (coordinate - first);
}

std::int64_t PositionAxis::nearest(double coordinate) const {
  const Range range = placed();
  const auto last = static_cast<double>(std::max(range.begin, range.end - 1));
  return std::llround(std::clamp(position(coordinate), static_cast<double>(range.begin), last));
}

figure::AxisLimits PositionAxis::limitsOf(const Range& positions) const {
  const auto begin = static_cast<double>(positions.begin);
  const auto last = static_cast<double>(std::max(positions.end - 1, positions.begin));
  const auto [lower, upper] = std::minmax({coordinate(begin), coordinate(last)});
  if (kind == Kind::position) return {lower - 0.5, upper + 0.5};
  // No distance is below 0: positions on the other side of the query or key have no place.
  const double nearest = std::max(lower, first);
  return {nearest - 0.5, std::max(upper, nearest) + 0.5};
}

Range PositionAxis::positionsIn(const figure::AxisLimits& limits) const {
  const std::int64_t lower = std::llround(limits.lower - first + 0.5);
  const std::int64_t upper = std::max(lower + 1, static_cast<std::int64_t>(std::llround(limits.upper - first + 0.5)));
  Range range{origin() + lower, origin() + upper};
  if (!ascends()) range = {origin() - upper + 1, origin() - lower + 1};
  range.begin = std::clamp<std::int64_t>(range.begin, 0, std::max<std::int64_t>(0, length - 1));
  range.end = std::clamp<std::int64_t>(range.end, range.begin + 1, std::max<std::int64_t>(length, range.begin + 1));
  return range;
}

Range PositionAxis::zoomed(const Range& range, double at, double factor) const {
  const figure::AxisLimits limits = limitsOf(range);
  const figure::AxisLimits most = whole();
  const double fixed = drawn(scale, std::clamp(at, limits.lower, limits.upper));
  const double lower = fixed + (drawn(scale, limits.lower) - fixed) * factor;
  const double upper = fixed + (drawn(scale, limits.upper) - fixed) * factor;
  Range result =
      positionsIn({std::max(undrawn(scale, lower), most.lower), std::min(undrawn(scale, upper), most.upper)});
  if (result != range) return result;
  // Whole tokens are too coarse for so small a step: the farther end goes by one.
  const double place = position(at);
  const bool beginIsFarther = place - static_cast<double>(range.begin) > static_cast<double>(range.end - 1) - place;
  if (factor < 1 && range.size() > 1) (beginIsFarther ? result.begin : result.end) += beginIsFarther ? 1 : -1;
  if (factor > 1) {
    const bool growsAtBegin = range.begin > 0 && (beginIsFarther || range.end >= length);
    if (growsAtBegin) {
      --result.begin;
    } else if (range.end < length) {
      ++result.end;
    }
  }
  return result;
}

Range PositionAxis::moved(const Range& range, double share) const {
  const figure::AxisLimits limits = limitsOf(range);
  const figure::AxisLimits most = whole();
  const double lower = drawn(scale, limits.lower);
  const double upper = drawn(scale, limits.upper);
  const double least = std::min(0.0, drawn(scale, most.lower) - lower);
  const double largest = std::max(0.0, drawn(scale, most.upper) - upper);
  const double by = std::clamp(share * (upper - lower), least, largest);
  return positionsIn({undrawn(scale, lower + by), undrawn(scale, upper + by)});
}

std::vector<double> PositionAxis::edges(const figure::AxisLimits& limits, int columns) const {
  const figure::AxisLimits most = whole();
  const double lower = drawn(scale, limits.lower);
  const double step = (drawn(scale, limits.upper) - lower) / columns;
  std::vector<double> edges;
  for (int column = -columns; column <= 2 * columns; ++column) {
    const double coordinate = undrawn(scale, lower + column * step);
    edges.push_back(position(std::clamp(coordinate, most.lower, most.upper)));
  }
  if (!ascends()) std::reverse(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace foxscope::gui::curves
