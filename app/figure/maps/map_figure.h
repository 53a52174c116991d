#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/figure/colour_map.h"
#include "app/figure/figure_format.h"
#include "backend/map/map.h"

namespace foxscope::figure {

enum class ColourScale { linear, logarithmic };

/// The choices by hand of a figure's colours; an absent one follows from the quantity and its values.
struct ColourChoice {
  const ColourMap* map = nullptr;    ///< null: by quantity
  std::optional<double> lower;       ///< value at the map's first colour
  std::optional<double> upper;       ///< value at its last
  std::optional<double> blankBelow;  ///< smaller entries stay white; of quantities with signs, those of smaller size
};

/// Ends of a colour bar by quantity, as they were chosen; those that are absent follow from the values.
struct ColourLimits {
  Quantity quantity = Quantity::forget;
  std::optional<double> lower;
  std::optional<double> upper;
};

/// A map as a picture: the raster inside axes, a colour bar, and a title that says what is shown.
struct MapFigure {
  MapRequest request;  ///< what `image` was computed from
  Image image;
  ColourScale scale = ColourScale::linear;
  ColourChoice colours;
  std::string title;     ///< in the place of the names of the request's heads; may be empty
  bool cropped = false;  ///< the title says that the region is the beginning of a longer text
  bool plain = false;    ///< axes and colour bar alone: no notes, and no title but one that was given
  std::string command;   ///< how to make the picture again; goes into the file's metadata
};

/// Pixels of a map.
struct PixelRoom {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Logarithmic for attention, whose few large entries would hide all others; else linear.
ColourScale defaultScale(const MapRequest& request);

/// @throws UsageError for a quantity with signs
void requireLogarithmic(const MapRequest& request);

/// @throws Error in a build without Qt, with what to build or use instead
void requireDrawing();

/// How many pixels a map of this region and quantity has room for in a figure, if each is to have a dot of its own; the
/// request's own numbers of pixels do not matter. A PNG cannot show more; rasters in SVG and PDF can, beyond the
/// format's resolution.
/// @throws UsageError for a format that is not valid or has no room for a map beside its labels
PixelRoom mapRoom(const MapRequest& request, const FigureFormat& format);

/// Draws a map without a display, from any thread while a Qt application runs: query positions downwards, key positions
/// to the right, entries that do not exist in grey. Each pixel of the image becomes a whole number of dots where the
/// room allows it, and is never mixed with its neighbours.
/// @returns the bytes of the file; the same figure and format give the same bytes
/// @throws UsageError for a format that is not valid, colour limits that are none, and a PNG with fewer dots than
/// pixels;
///         Error in a build without Qt
std::string drawMap(const MapFigure& figure, const FigureFormat& format);

}  // namespace foxscope::figure
