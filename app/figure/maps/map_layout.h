#pragma once

#include "app/figure/figure_measures.h"
#include "app/figure/maps/map_figure.h"
#include "app/figure/page/axis_ticks.h"
#include "backend/map/distance_axis.h"

namespace foxscope::figure {

/// Height over width of a map by distance, whose axes have no unit in common.
inline constexpr double kDistanceProportion = 0.6;

/// Width and height that a map's raster may take in its figure, points: in the region's proportions where they are
/// mild, its longer side as long as the figure's width (and height, if that was chosen) allows.
struct RasterRoom {
  double width = 0;
  double height = 0;
};

/// @throws UsageError where less than 8 mm are left
RasterRoom rasterRoom(const MapRequest& request, const FigureFormat& format, const Margins& margins);

/// Room for the labels of a map's colour bar, in font sizes: enough for what linearTicks and logarithmicTicks make of
/// limits around 0 or above it.
double barLabelRoom(const MapRequest& request);

/// How the pixels of one side of a map become dots.
struct SideDots {
  int dots = 0;    ///< the side's length at the format's resolution
  int pixels = 0;  ///< of the embedded raster along it: a multiple of the map's where that is possible
};

/// Whole multiples of a dot where they fill most of the room. Else the whole room: in SVG and PDF with more raster
/// pixels than dots, so that all map pixels are alike; in a PNG with some a dot wider than others.
/// @throws UsageError for a PNG with less room than pixels
SideDots sideDots(int room, int mapPixels, FigureFormat::Kind kind);

/// The left side of a map shows its queries, or its distances.
const Range& upRange(const MapRequest& request);
/// The side below it shows its keys, or its queries.
const Range& acrossRange(const MapRequest& request);
/// The axis of distances of a map by distance.
DistanceAxis distanceAxisOf(const MapRequest& request);
/// Ticks of distances, at most so many.
Ticks distanceTicks(const Range& distances, int most);

/// Digits of the largest position of a range.
int digitsOf(const Range& range);

}  // namespace foxscope::figure
