#include "app/figure/heads/head_label_colour.h"

#include <array>
#include <cstddef>

#include "backend/base/index.h"

namespace foxscope::figure {

Rgb labelColour(HeadLabel label) {
  // The colours in the order of HeadLabel; sinks, which do nothing with what they see, are grey.
  static constexpr std::array<Rgb, kHeadLabels> kColours = {{{0x2d, 0x46, 0x6c},    // blue, L* 29
                                                             {0x6c, 0xcf, 0xee},    // sky, 78
                                                             {0xa8, 0xa8, 0xa8},    // grey, 69
                                                             {0xf6, 0x89, 0x24},    // orange, 68
                                                             {0xc2, 0x07, 0x2c},    // red, 41
                                                             {0x2a, 0x9c, 0x66}}};  // green, 57
  return kColours[index_of(label)];
}

Letter letterOn(const Rgb& ground) {
  // Relative luminance by Rec. 709 without its gamma: enough to choose between two.
  const double light = 0.2126 * ground.red + 0.7152 * ground.green + 0.0722 * ground.blue;
  return light < 125 ? Letter::white : Letter::black;
}

}  // namespace foxscope::figure
