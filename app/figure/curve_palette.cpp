#include "app/figure/curve_palette.h"

#include <array>
#include <cstddef>

namespace foxscope::figure {

namespace {

std::size_t placeOf(int index) {
  const int place = index % kCurveColours;
  return static_cast<std::size_t>(place < 0 ? place + kCurveColours : place);
}

}  // namespace

Rgb curveColour(int index) {
  static constexpr std::array<Rgb, kCurveColours> kColours = {{{0x2d, 0x46, 0x6c},    // blue, L* 29
                                                               {0xf6, 0x89, 0x24},    // orange, 68
                                                               {0xc2, 0x07, 0x2c},    // red, 41
                                                               {0x2a, 0x9c, 0x66},    // green, 57
                                                               {0x00, 0x00, 0x00},    // black, 0
                                                               {0x6c, 0xcf, 0xee}}};  // sky, 78
  return kColours[placeOf(index)];
}

LineStyle curveLine(int index) {
  using enum LineStyle;
  static constexpr std::array<LineStyle, kCurveColours> kLines = {solid, solid, dashed, dotted, dashDotted, dashed};
  return kLines[placeOf(index)];
}

}  // namespace foxscope::figure
