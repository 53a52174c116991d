#pragma once

#include <utility>

#include <QString>

#include "app/gui/maps/map_picture.h"
#include "app/gui/maps/pane_heads.h"

namespace foxscope::gui {

class MapPlot;

/// Whether what is shown is what was asked for.
enum class Finality { coarse, exact };

/// "fox L1 H2 · attention A"; of two sides, both.
QString titleOf(const PictureContent& content, const PaneHeads& heads);
/// "max of 8 × 8 tokens a pixel · exact"
/// @param length  of the text, positions
QString detailOf(const MapPicture& picture, Finality finality, std::int64_t length);
/// The entry under the pointer, or else the pinned one: positions, tokens, value.
QString readoutOf(const MapPicture& picture, const Document& document, const MapPlot& plot);
/// The command line that computes the same map; empty where the run is in no file.
QString commandOf(const MapRequest& request, const Document& document);
/// Limits that leave out the extremes: the 0.1 and 99.9 percentiles; of what has signs, as far to both sides of zero;
/// on a logarithmic scale at most six decades.
std::pair<double, double> contrastLimits(const MapPicture& picture);

}  // namespace foxscope::gui
