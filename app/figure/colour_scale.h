#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/figure/map_figure.h"

namespace foxscope::figure {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// Colours from one end of a scale to the other, evenly spaced, interpolated in between.
using ColourMap = std::vector<Rgb>;

const ColourMap& viridis();
const ColourMap& magma();
/// Blue, white, red.
const ColourMap& diverging();

/// The colour at `position`, from 0 to 1; outside, the nearer end.
Rgb colourAt(const ColourMap& map, double position);

/// Entries that do not exist: above the diagonal or outside the window.
inline constexpr Rgb kAbsent{222, 222, 222};

/// How values become colours, and what the colour bar says of it.
struct ScaledColours {
  const ColourMap* map = nullptr;
  ColourScale scale = ColourScale::linear;
  double lower = 0;   ///< value at the map's first colour
  double upper = 1;   ///< value at its last
  std::string label;  ///< quantity and unit, for the colour bar
  std::string note;   ///< what the bar's ends leave out, empty if nothing

  /// From 0 at `lower` to 1 at `upper`, not clamped.
  [[nodiscard]] double position(double value) const;
};

/// The scale of a figure: viridis for F and attention, magma for logits and log F, diverging and centred at zero for
/// what has signs. A logarithmic scale shows four decades below the largest value.
ScaledColours chooseColours(const MapFigure& figure);

}  // namespace foxscope::figure
