#pragma once

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_plot.h"

namespace foxscope::figure {

/// Number of different colours of curves.
inline constexpr int kCurveColours = 6;

/// The ground that curves are drawn on: paper and the window's light theme, or its dark theme.
enum class Ground { light, dark };

/// Colour of a curve, from 0, again from the start after kCurveColours; of one hue on both grounds. Every two differ by
/// 18 in CIEDE2000 and more, to normal sight and without red, green or blue cones (Machado, Oliveira and Fernandes
/// 2009), and each has a contrast above 3 to its ground (WCAG 2).
Rgb curveColour(int index, Ground ground = Ground::light);

/// The name of the colour for people: "blue".
const char* curveColourName(int index, Ground ground = Ground::light);

/// How a curve is told from others.
struct CurveLook {
  int colour = 0;
  int change = 0;  ///< of curveLine
};

/// Line of a curve with the colour of that index, for curves that may cross anywhere: two colours on paper with one
/// style of line differ in lightness (CIE L*) by 25 and more, so that grey print tells every pair of kCurveColours
/// apart.
/// @param change  0: that line; n: the n-th other style in turn, for changed copies of a model in its own colour
LineStyle curveLine(int index, int change = 0);

}  // namespace foxscope::figure
