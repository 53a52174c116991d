#pragma once

#include "app/figure/colour_map.h"
#include "app/figure/curve_plot.h"

namespace foxscope::figure {

/// Number of different colours of curves.
inline constexpr int kCurveColours = 6;

/// Colour of a curve on white, from 0, again from the start after kCurveColours. Their lightness differs (CIE L* by 10
/// or so), so that they stay apart in grey print and without red or green vision.
Rgb curveColour(int index);

/// Line of a curve with the colour of that index, for curves that may cross anywhere: two colours with one style of
/// line differ in lightness by 25 and more, so that grey print tells every pair of kCurveColours apart.
LineStyle curveLine(int index);

}  // namespace foxscope::figure
