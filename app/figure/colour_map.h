#pragma once

#include <cstdint>
#include <vector>

namespace foxscope::figure {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  bool operator==(const Rgb&) const = default;
};

/// Colours from one end of a scale to the other, evenly spaced, interpolated in between.
using ColourMap = std::vector<Rgb>;

const ColourMap& viridis();
const ColourMap& magma();
const ColourMap& cividis();
const ColourMap& grey();
/// Blue, white, red: for differences only.
const ColourMap& diverging();

/// White to orange, light enough for black letters on it.
const ColourMap& tint();
/// Blue, white, orange, likewise: what has signs.
const ColourMap& signedTint();

/// The maps by name, for whoever offers a choice.
enum class ColourMapName { viridis, cividis, magma, grey, diverging };
const ColourMap& colourMapOf(ColourMapName name);

/// Colour maps that can be chosen for any quantity.
struct NamedColourMap {
  const char* name;
  const ColourMap* map;
};
const std::vector<NamedColourMap>& namedColourMaps();

/// The colour at `position`, from 0 to 1; outside, the nearer end.
Rgb colourAt(const ColourMap& map, double position);

/// Entries that do not exist: above the diagonal or outside the window. In grey print it has to differ from white,
/// which is a difference of 0, and from the light end of viridis, which has the lightness of (222, 222, 222).
inline constexpr Rgb kAbsent{240, 240, 240};

}  // namespace foxscope::figure
