#pragma once

#include <cstdint>

#include "app/gui/document/selection.h"

namespace foxscope::gui {

/// Where in a range something happens: 0 at its begin, 1 at its end.
struct Anchor {
  double row = 0.5;
  double column = 0.5;
};

/// The ranges of a view that a zoom changes.
enum class ZoomAxes { both, rows, columns };

// All of these give ranges of at least one token inside [0, length); length >= 1.

View wholeView(std::int64_t length);
/// Ranges moved, then cut, until they lie inside the text.
View clamped(const View& view, std::int64_t length);
/// @param factor  how many times more tokens are shown; below 1 zooms in. The token at the anchor stays there. A range
///                changes by one token at least, as long as there is one.
View zoomed(const View& view, double factor, const Anchor& anchor, ZoomAxes axes, std::int64_t length);
/// The distances that a map by distance shows: all that the text has, unless others were chosen.
Range shownDistances(const View& view, std::int64_t length);
/// Zooms queries (columns of the picture, Anchor::column) and distances (its rows, Anchor::row from the top). The
/// view's keys become those of what is shown.
View zoomedByDistance(const View& view, double factor, const Anchor& anchor, ZoomAxes axes, std::int64_t length);
/// Moved by queries, and by a share of the axis of distances towards greater ones, as far as the text goes.
View pannedByDistance(const View& view, std::int64_t queries, double share, std::int64_t length);
/// The view of these queries and distances.
View viewByDistance(const Range& queries, const Range& distances, std::int64_t length);
/// Moved by tokens, as far as the text goes.
View panned(const View& view, std::int64_t rows, std::int64_t columns, std::int64_t length);
/// A view of so many tokens around a place; the part of the place that is missing lies on the diagonal.
View viewAround(const Cursor& place, std::int64_t tokens, std::int64_t length);
/// The smallest view around this one of which both ranges are as long, as far as the text allows.
View squared(const View& view, std::int64_t length);

}  // namespace foxscope::gui
