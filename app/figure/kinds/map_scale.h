#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_origin.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// One scale for several maps of the request's quantity, by the values of all of them.
/// @throws UsageError as chooseColours
ScaledColours sharedColours(const MapRequest& request, std::span<const Image> images, const ColourChoice& choice);

/// The colours that were chosen for the maps of one quantity.
/// @param map  null: by quantity
ColourChoice colourChoice(Quantity quantity, const ColourMap* map, std::span<const ColourLimits> limits);

/// A figure has runs beside each other that read the same at every position but the first, where each has its BOS.
/// @returns a note where their BOS differ
/// @throws UsageError for runs on different texts or tokens
std::optional<std::string> requireSameTokens(const Trace& first, const Trace& second);

/// @throws UsageError for limits of a quantity that is not among those shown
void requireShown(std::span<const ColourLimits> limits, std::span<const Quantity> shown);

/// Adds to a figure's metadata what a map of this request shows, and how.
void addMapFacts(FigureOrigin& origin, const MapRequest& request, const ScaledColours& colours);

/// Height over width of a map of this region, mild where the region is oblong.
double mapProportion(const Range& rows, const Range& columns);

/// Most entries on a side whose tokens are written instead of numbers.
inline constexpr std::int64_t kMostTokenLabels = 64;

/// The tokens that the positions of a range read, for the ticks of a map; empty where there are more than this.
std::vector<std::string> tokenLabels(const Trace& trace, const Range& range, std::int64_t most);

}  // namespace foxscope::figure
