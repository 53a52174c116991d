#pragma once

#include <string>

#include "backend/map/map.h"

namespace foxscope::figure {

enum class ColourScale { linear, logarithmic };

/// A map as a picture: the raster inside axes, a colour bar, and a title that says what is shown.
struct MapFigure {
  MapRequest request;  ///< what `image` was computed from
  Image image;
  ColourScale scale = ColourScale::linear;
  std::string command;  ///< how to make the picture again; goes into the file's metadata
};

/// Logarithmic for attention, whose few large entries would hide all others; else linear.
ColourScale defaultScale(const MapRequest& request);

/// @throws UsageError for a quantity with signs
void requireLogarithmic(const MapRequest& request);

/// @throws Error in a build without Qt, with what to build or use instead
void requireDrawing();

/// Draws the picture without a display: query positions downwards, key positions to the right, entries that do not
/// exist in grey, every pixel of the image a square or rectangle of its own.
/// @returns the bytes of a PNG file; the same figure gives the same bytes
/// @throws Error in a build without Qt
std::string drawPng(const MapFigure& figure);

}  // namespace foxscope::figure
