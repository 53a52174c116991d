#pragma once

#include <utility>

#include <QString>

#include "app/gui/maps/header_button.h"
#include "app/gui/maps/map_picture.h"
#include "app/gui/maps/pane/pane_heads.h"
#include "app/gui/maps/pane/pane_readout.h"

namespace foxscope::gui {

class MapPlot;

/// Whether what is shown is what was asked for.
enum class Finality { coarse, exact };

/// "fox L0 H1 − base L0 H2": the first less the second, or both sides of a line.
std::vector<TitlePart> headsOf(const PictureContent& content, const PaneHeads& heads);
/// "fox L1 H2 · attention A"; of two sides, both.
QString titleOf(const PictureContent& content, const PaneHeads& heads);
/// "max of 8 × 8 tokens a pixel · exact"
/// @param heads   who knows the runs' names
/// @param length  of the reference run, positions
QString detailOf(const MapPicture& picture, Finality finality, const PaneHeads& heads, std::int64_t length);
/// Explains the entries of a linear mixer, which are no attention: "M: y = M v, signed; F: its decay". Empty for
/// softmax attention.
QString meaningOf(const PictureContent& content);
/// The entry of the glossary that explains a quantity.
QString termOf(Quantity quantity);
/// A short note on what misleads if it is not seen: "no gates", "other tokens", "short: 60 tokens".
QString noteOf(const MapPicture& picture, const PaneHeads& heads, std::int64_t length);
/// An entry and what is known of it.
struct EntryReading {
  EntryRequest request;
  std::optional<float> value;  ///< none: it is being computed
  QString failure;             ///< why it will not come; empty: it will
};

/// The place under the pointer, or else the pinned one.
Cursor readPlace(const Selection& selection);
/// The side of the plot that shows a place.
std::size_t sideShowing(const PictureContent& content, const MapPlot& plot, std::int64_t row, std::int64_t column);

/// "2012 ␣the": a position of the reference run, in the side's own run, and the token that it reads.
QString placeText(const PictureContent& content, std::size_t side, std::int64_t position);
/// The reading at that place: the exact entry, the pixel that shows it where that is of several entries, positions and
/// tokens of the run that is read.
/// @param picture  what is shown; null: nothing yet
/// @param entry    of `content` at that place; null where there is none
PaneReading readingOf(const PictureContent& content, const MapPicture* picture, const EntryReading* entry,
                      const RunList& runs, const MapPlot& plot);
/// Limits that leave out the extremes: the 0.1 and 99.9 percentiles; of what has signs, as far to both sides of zero;
/// on a logarithmic scale at most six decades.
std::pair<double, double> contrastLimits(const MapPicture& picture);

}  // namespace foxscope::gui
