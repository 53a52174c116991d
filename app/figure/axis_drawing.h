#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/figure/axis_ticks.h"
#include "app/figure/canvas.h"

namespace foxscope::figure {

/// Where an axis is drawn: the edge of its rectangle, and what lies at its ends.
struct AxisEdge {
  enum class Side { left, right, bottom };
  Side side = Side::bottom;
  QRectF rect;
  std::function<double(double)> position;  ///< of a value, from 0 (left or lower end) to 1
};

/// Width of the widest label, points.
double widestLabel(const Ticks& ticks, const TextStyle& style);

/// Draws ticks outwards, their labels, and the axis' label, which shrinks where it would be longer than its edge.
/// @param labels  room of the tick labels across the axis, points
void drawAxis(Canvas& canvas, const AxisEdge& edge, const Ticks& ticks, const std::string& label, double labels,
              const TextStyle& style);

/// The text in lines of about this width, broken at line ends and spaces, longer words within. A line can be a little
/// longer, to be fitted.
std::vector<QString> wrapped(const std::string& text, const TextStyle& style, double width);

/// The style, smaller where the text would be wider than this, but not below 0.55 of its size.
TextStyle fitted(TextStyle style, const QString& text, double width);

}  // namespace foxscope::figure
