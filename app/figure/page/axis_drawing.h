#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/canvas.h"

namespace foxscope::figure {

/// Where an axis is drawn: the edge of its rectangle, and what lies at its ends.
struct AxisEdge {
  enum class Side { left, right, bottom };
  Side side = Side::bottom;
  QRectF rect;
  std::function<double(double)> position;  ///< of a value, from 0 (left or lower end) to 1
  /// Whether the axis' name may take several lines, or has room for one, in which it is written smaller.
  enum class Name { lines, oneLine };
  Name name = Name::lines;
};

/// Width of the widest label, points.
double widestLabel(const Ticks& ticks, const TextStyle& style);

/// Whether no two neighbouring labels of ticks along a horizontal edge come nearer than half a font size.
/// @param position  of a value, from 0 to 1
bool labelsApart(const Ticks& ticks, const std::function<double(double)>& position, double length,
                 const TextStyle& style);

/// The name of an axis and the factor of its labels, in lines as long as its edge at the most, or a little longer, to
/// be fitted: the unit in brackets goes to a line of its own first.
std::vector<QString> axisName(const std::string& name, const Ticks& ticks, double length, const TextStyle& style);

/// Room that the lines of an axis' name take beside its tick labels; none of them is none.
double axisNameDepth(const std::vector<QString>& lines, const TextStyle& style);

/// Draws ticks outwards, their labels, and the axis' name.
/// @param labels  room of the tick labels across the axis, points
void drawAxis(Canvas& canvas, const AxisEdge& edge, const Ticks& ticks, const std::string& name, double labels,
              const TextStyle& style);

/// The text in lines of about this width, broken at line ends and spaces, longer words within. A line can be a little
/// longer, to be fitted.
std::vector<QString> wrapped(const std::string& text, const TextStyle& style, double width);

/// A panel's title in lines of about this width. Where its letters would be much smaller than the style's, heads are
/// written briefly: "(a) Layer 7, head 2" as "(a) L7 H2".
/// @param beside  titles of panels of its width that are to be written alike
std::vector<QString> titleLinesOf(const std::string& title, const TextStyle& style, double width,
                                  const std::vector<std::string>& beside = {});

/// The style, smaller where the text would be wider than this, but not below 0.55 of its size.
TextStyle fitted(TextStyle style, const QString& text, double width);
/// The same for the longest of several lines.
TextStyle fitted(TextStyle style, const std::vector<QString>& lines, double width);

/// Draws a panel's title in lines above its rectangle, in the middle; an empty one is none.
void drawTitleAbove(Canvas& canvas, const QRectF& inner, const std::string& title, const TextStyle& style);

}  // namespace foxscope::figure
