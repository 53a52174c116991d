#include "app/figure/colour_map.h"

#include <algorithm>
#include <cmath>

namespace foxscope::figure {

// Ten colours, evenly spaced, of each of these maps, to 2 in 255 of the tables in matplotlib. Viridis and magma are by
// N. J. Smith, S. van der Walt and E. Firing (2015, CC0); cividis is by J. R. Nuñez, C. R. Anderton and R. S. Renslow,
// "Optimizing colormaps with consideration for color vision deficiency to enable accurate interpretation of scientific
// data", PLOS ONE 13(7), e0199239 (2018).
const ColourMap& viridis() {
  static const ColourMap map = {{0x44, 0x01, 0x54}, {0x48, 0x28, 0x78}, {0x3e, 0x4a, 0x89}, {0x31, 0x68, 0x8e},
                                {0x26, 0x82, 0x8e}, {0x1f, 0x9e, 0x89}, {0x35, 0xb7, 0x79}, {0x6e, 0xce, 0x58},
                                {0xb5, 0xde, 0x2b}, {0xfd, 0xe7, 0x25}};
  return map;
}

const ColourMap& magma() {
  static const ColourMap map = {{0x00, 0x00, 0x04}, {0x18, 0x0f, 0x3d}, {0x44, 0x0f, 0x76}, {0x72, 0x1f, 0x81},
                                {0x9e, 0x2f, 0x7f}, {0xcd, 0x40, 0x71}, {0xf1, 0x60, 0x5d}, {0xfd, 0x96, 0x68},
                                {0xfe, 0xca, 0x8d}, {0xfc, 0xfd, 0xbf}};
  return map;
}

const ColourMap& cividis() {
  static const ColourMap map = {{0x00, 0x22, 0x4e}, {0x12, 0x35, 0x70}, {0x3b, 0x49, 0x6c}, {0x57, 0x5d, 0x6d},
                                {0x70, 0x71, 0x73}, {0x8a, 0x86, 0x78}, {0xa5, 0x9c, 0x74}, {0xc3, 0xb3, 0x69},
                                {0xe1, 0xcc, 0x55}, {0xfe, 0xe8, 0x38}};
  return map;
}

const ColourMap& grey() {
  static const ColourMap map = {{0x00, 0x00, 0x00}, {0xff, 0xff, 0xff}};
  return map;
}

const std::vector<NamedColourMap>& namedColourMaps() {
  static const std::vector<NamedColourMap> maps = {
      {"viridis", &viridis()}, {"cividis", &cividis()}, {"magma", &magma()}, {"grey", &grey()}};
  return maps;
}

const ColourMap& colourMapOf(ColourMapName name) {
  switch (name) {
    case ColourMapName::viridis:
      return viridis();
    case ColourMapName::cividis:
      return cividis();
    case ColourMapName::magma:
      return magma();
    case ColourMapName::grey:
      return grey();
    case ColourMapName::diverging:
      return diverging();
  }
  return viridis();
}

// The project's own, as are the colours of curves.
const ColourMap& tint() {
  static const ColourMap map = {{0xff, 0xff, 0xff}, {0xe6, 0xd8, 0xf5}, {0xca, 0xa6, 0xec}, {0xb2, 0x7c, 0xe0}};
  return map;
}

const ColourMap& signedTint() {
  static const ColourMap map = {
      {0x6f, 0xb1, 0xee}, {0xbc, 0xda, 0xf5}, {0xff, 0xff, 0xff}, {0xf8, 0xcb, 0xc0}, {0xf0, 0x8a, 0x75}};
  return map;
}

// ColorBrewer's RdBu of eleven colours, reversed, with white in its middle (C. Brewer, M. Harrower and The Pennsylvania
// State University, 2002, Apache 2.0).
const ColourMap& diverging() {
  static const ColourMap map = {{0x05, 0x30, 0x61}, {0x21, 0x66, 0xac}, {0x43, 0x93, 0xc3}, {0x92, 0xc5, 0xde},
                                {0xd1, 0xe5, 0xf0}, {0xff, 0xff, 0xff}, {0xfd, 0xdb, 0xc7}, {0xf4, 0xa5, 0x82},
                                {0xd6, 0x60, 0x4d}, {0xb2, 0x18, 0x2b}, {0x67, 0x00, 0x1f}};
  return map;
}

Rgb colourAt(const ColourMap& map, double position) {
  const double place = std::clamp(position, 0.0, 1.0) * static_cast<double>(map.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), map.size() - 2);
  const double part = place - static_cast<double>(below);
  const auto mix = [&](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + part * (static_cast<double>(b) - a)));
  };
  const Rgb& from = map[below];
  const Rgb& to = map[below + 1];
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

}  // namespace foxscope::figure
