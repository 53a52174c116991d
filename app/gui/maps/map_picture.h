#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <QImage>

#include "app/figure/colour_scale.h"
#include "app/gui/document/places.h"
#include "app/gui/document/selection.h"
#include "app/gui/maps/pane/pane_state.h"
#include "app/gui/maps/value_summary.h"
#include "backend/map/map.h"

namespace foxscope::gui {

/// One head of a picture. Positions of its run may differ from those of the reference run, which the view speaks in.
struct PictureSide {
  HeadOf head;
  std::shared_ptr<const PlaceMap> places;  ///< from the reference run; null: it is that run

  [[nodiscard]] bool samePositions() const { return !places || places->identical(); }
  /// Positions of the reference run, from 0 on, that this run has read as well.
  [[nodiscard]] std::int64_t covered() const { return places ? places->covered() : head.trace->info().length; }
  /// A position of the reference run in this one; nothing where this one has not read so far.
  [[nodiscard]] std::optional<std::int64_t> position(std::int64_t ofReference) const;
  bool operator==(const PictureSide& other) const;
};

/// The values that a picture is made of; pictures of equal content differ in range, pixels and colours only.
struct PictureContent {
  std::vector<PictureSide> sides;  ///< one, or two where a line divides them
  std::optional<HeadOf> minus;     ///< subtracted from the only side
  Quantity quantity = Quantity::forget;
  Reduction reduction = Reduction::max;
  FirstKey firstKey = FirstKey::counted;
  MapAxes axes = MapAxes::key;  ///< distance: where all sides have the reference's positions
  int text = 0;                 ///< that its runs read: Run::text
  bool operator==(const PictureContent& other) const;

  /// Made without reading queries and keys, in a moment at any length (docs/maps.md).
  [[nodiscard]] bool hasClosedForm() const;
  /// Whether it is computed on another machine.
  [[nodiscard]] bool isElsewhere() const;
  /// The longest of its sides' covered().
  [[nodiscard]] std::int64_t covered() const;
};

/// Pixels of a raster, at most.
struct PixelSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool operator==(const PixelSize&) const = default;
};

/// How values become colours.
struct Shading {
  ColourState colours;
  figure::ColourScale scale = figure::ColourScale::linear;
  QRgb absent = 0;  ///< of entries that do not exist
  QRgb blank = 0;   ///< of those below the threshold
  /// Limits that automatic ones cover beside the picture's own: those of the other steps of a training.
  std::optional<std::pair<double, double>> steps = {};
  bool operator==(const Shading&) const = default;
};

/// A pane's request for a picture. Plain values: it travels to the compute thread.
struct PictureRequest {
  PictureContent content;
  View view;         ///< positions of the reference run that one side at least has read; distances only by distance
  PixelSize pixels;  ///< device pixels of the view; the raster has as many, or one for each entry
  double skipTolerance = 0;
  Shading shading;
  /// Values of a run on another machine need be no more exact than these colours (MapRequest::shades).
  bool forColours = false;

  /// The colours that its values were rounded to; absent: values are exact.
  [[nodiscard]] std::optional<Shades> shades() const;
};

/// A map as a picture. Immutable; recoloured ones share their values.
struct MapPicture {
  PictureRequest request;
  bool exact = false;
  double milliseconds = 0;  ///< that an exact one took: how long a similar one will
  /// Per side, on the raster's grid over the request's view; by distance [queries, distances] as compute_map gives it.
  std::vector<std::shared_ptr<const Image>> values;
  /// The request that the first side's values were computed by, in positions of its own run; for export. Rows 0:0 where
  /// that run has read nothing of the view.
  MapRequest computed;
  std::shared_ptr<const Image> computedValues;
  std::shared_ptr<const ValueSummary> summary;
  figure::ScaledColours colours;
  std::vector<QImage> images;  ///< per side, as it is drawn, Format_RGB32, a pixel for each value

  /// The value at a position of the reference run inside the view; NaN where there is none.
  [[nodiscard]] float value(std::size_t side, std::int64_t row, std::int64_t column) const;
  /// Tokens in the larger of a pixel's two sides; by distance its queries.
  [[nodiscard]] double tokensPerPixel() const;
  /// Every pixel is one entry; never by distance, where far pixels are bins.
  [[nodiscard]] bool showsEntries() const;
};
using PicturePointer = std::shared_ptr<const MapPicture>;

/// The receiver of a picture while it is made, and how often it gets one.
struct PictureStages {
  std::function<void(PicturePointer)> show;  ///< pictures that are not exact: some lines are, and stand for the others
  std::chrono::milliseconds interval{150};
};

/// The picture as it is asked for; on a logarithmic scale whose colours reach below the skip tolerance, without one.
/// @param stages  of one side whose positions are the view's; without `show` nothing is shown on the way
/// @returns nothing if the job was stopped. @throws as compute_map and figure::chooseColours
std::optional<PicturePointer> makeExactPicture(const PictureRequest& request, const Job& job,
                                               const PictureStages& stages = {});

/// A quick one of what takes a pass over queries and keys: of every band of rows a sample is computed, without a gap
/// where the range is short.
/// @param beside  the picture beside which it will be shown, whose colours it takes; null: colours by its own values
std::optional<PicturePointer> makeCoarsePicture(const PictureRequest& request, const PicturePointer& beside,
                                                const Job& job);

/// One entry of one side, in positions of its own run.
struct EntryRequest {
  HeadOf head;
  std::optional<HeadOf> minus;
  Quantity quantity = Quantity::forget;
  std::int64_t query = 0;
  std::int64_t key = 0;
  FirstKey firstKey = FirstKey::counted;
  bool operator==(const EntryRequest& other) const;
};

/// The entry at a place of the reference run. Nothing where there is none: the key comes after the query, or the run
/// has not read so far.
std::optional<EntryRequest> entryAt(const PictureContent& content, std::size_t side, std::int64_t row,
                                    std::int64_t column);
/// Its exact value, whatever a pixel makes of it and its neighbours. Softmax without the gate takes one pass over the
/// keys of the row. @returns nothing if the job was stopped. @throws as compute_map
std::optional<float> entryValue(const EntryRequest& entry, const Job& job);

/// The same values in other colours. @throws UsageError for limits that are none
PicturePointer recoloured(const MapPicture& picture, const Shading& shading);

}  // namespace foxscope::gui
