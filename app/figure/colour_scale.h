#pragma once

#include <optional>
#include <span>
#include <string>

#include "app/figure/colour_map.h"
#include "app/figure/maps/map_figure.h"

namespace foxscope::figure {

/// Entries that are left out by choice.
inline constexpr Rgb kBlank{255, 255, 255};

/// How values become colours, and what the colour bar says of it.
struct ScaledColours {
  const ColourMap* map = nullptr;
  ColourScale scale = ColourScale::linear;
  double lower = 0;                  ///< value at the map's first colour
  double upper = 1;                  ///< value at its last
  std::optional<double> blankBelow;  ///< entries below stay blank
  bool hasSigns = false;             ///< blank is what has a smaller size, not a smaller value
  std::string label;                 ///< quantity and unit, for the colour bar
  std::string note;                  ///< what the colours leave out, empty if nothing

  /// The position of a value from 0 at `lower` to 1 at `upper`, not clamped.
  [[nodiscard]] double position(double value) const;
  /// The value at a position, the inverse of `position`.
  [[nodiscard]] double value(double position) const;
  /// kAbsent for NaN, kBlank below the threshold, else the map's colour at the value's position.
  [[nodiscard]] Rgb colour(double value) const;
};

/// The size that this share of the entries stay within; 0 where no entry is a number.
double sizeOfMost(const Image& image, double share);

/// "colours from 0 to 8.1, values from 0.2 to 12" where the colours do not reach all of the values; else empty.
std::string beyondText(const ScaledColours& colours, std::span<const double> values);

/// The label of a bar where that is so: "loss (nats, some beyond)".
std::string someBeyond(const std::string& label);

/// The scale of a figure, by choice or else: viridis for F and attention, magma for logits and log F, diverging and
/// centred at zero for what has signs (where one limit alone is chosen, the other mirrors it). A logarithmic scale
/// shows four decades below its upper limit.
/// @throws UsageError for limits that are not finite, not in order, or not above 0 on a logarithmic scale
ScaledColours chooseColours(const MapFigure& figure);

}  // namespace foxscope::figure
