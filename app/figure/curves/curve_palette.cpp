#include "app/figure/curves/curve_palette.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace foxscope::figure {

namespace {

struct PaletteEntry {
  Rgb onLight;
  Rgb onDark;
  const char* name;
};

// Found by a search for the largest least difference over all kinds of sight and both grounds.
constexpr std::array<PaletteEntry, kCurveColours> kPalette = {
    {{{0x34, 0x42, 0x9e}, {0x47, 0x73, 0xd6}, "blue"},      // L* 32 and 50
     {{0xc2, 0x7e, 0x00}, {0xf1, 0xa7, 0x02}, "orange"},    // 58, 74
     {{0x82, 0x0e, 0x0f}, {0xf2, 0x44, 0x67}, "red"},       // 27, 56
     {{0x04, 0x82, 0x68}, {0x67, 0xf6, 0xac}, "green"},     // 48, 88
     {{0x00, 0x00, 0x00}, {0xf9, 0xf9, 0xff}, "black"},     // 0, 98
     {{0xa4, 0x54, 0xfe}, {0xe2, 0xb6, 0xff}, "violet"}}};  // 53, 80
constexpr std::size_t kNeutral = 4;

std::size_t placeOf(int index) {
  const int place = index % kCurveColours;
  return static_cast<std::size_t>(place < 0 ? place + kCurveColours : place);
}

}  // namespace

Rgb curveColour(int index, Ground ground) {
  const PaletteEntry& entry = kPalette[placeOf(index)];
  return ground == Ground::dark ? entry.onDark : entry.onLight;
}

const char* curveColourName(int index, Ground ground) {
  const std::size_t place = placeOf(index);
  return place == kNeutral && ground == Ground::dark ? "white" : kPalette[place].name;
}

LineStyle curveLine(int index, int change) {
  using enum LineStyle;
  static constexpr std::array<LineStyle, kCurveColours> kLines = {solid, solid, dashed, dotted, dashDotted, dashed};
  static constexpr std::array<LineStyle, 4> kTurn = {solid, dashed, dotted, dashDotted};
  const auto own = std::find(kTurn.begin(), kTurn.end(), kLines[placeOf(index)]) - kTurn.begin();
  return kTurn[(static_cast<std::size_t>(own) + static_cast<std::size_t>(change)) % kTurn.size()];
}

}  // namespace foxscope::figure
