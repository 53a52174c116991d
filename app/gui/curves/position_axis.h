#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/figure/curves/curve_geometry.h"
#include "backend/map/map_line.h"

namespace foxscope::gui::curves {

/// The horizontal axis of a plot: positions, or distances of a row's keys back from its query, of a column's queries
/// from its key on. Its coordinates count from 0 or, on a logarithmic axis, from 1, so that the first one has a place.
struct PositionAxis {
  enum class Kind { position, distance };  ///< distance: of a row or a column only
  Kind kind = Kind::position;
  figure::AxisScale scale = figure::AxisScale::linear;
  /// The line of the map whose pairs stand at the positions; nothing: the positions are queries, along the text.
  std::optional<MapLine> line = {};
  double first = 0;  ///< coordinate of position 0, or of distance 0
  std::int64_t length = 0;

  bool operator==(const PositionAxis&) const = default;

  [[nodiscard]] bool isOfKeys() const { return line && line->along == MapLine::Along::row; }
  /// Later positions have larger coordinates.
  [[nodiscard]] bool ascends() const { return kind == Kind::position || !isOfKeys(); }
  [[nodiscard]] double coordinate(double position) const;
  [[nodiscard]] double position(double coordinate) const;
  /// The position nearest to a coordinate that exists.
  [[nodiscard]] std::int64_t nearest(double coordinate) const;

  /// Both ends of an axis that shows these positions, each with half a token around it.
  [[nodiscard]] figure::AxisLimits limitsOf(const Range& positions) const;
  /// The positions that lie between two coordinates; at least one.
  [[nodiscard]] Range positionsIn(const figure::AxisLimits& limits) const;

  /// The range, `factor` times as wide on the screen, so that the coordinate `at` stays where it is; at least one token
  /// wider or narrower, as far as the text allows.
  [[nodiscard]] Range zoomed(const Range& range, double at, double factor) const;
  /// The range moved by this share of its width on the screen, as far as the text allows.
  [[nodiscard]] Range moved(const Range& range, double share) const;
  /// Edges of `columns` equally wide columns between the limits, and of as many to each side that exist, as positions
  /// in rising order.
  [[nodiscard]] std::vector<double> edges(const figure::AxisLimits& limits, int columns) const;

 private:
  [[nodiscard]] double direction() const { return ascends() ? 1 : -1; }
  /// The position whose coordinate is `first`.
  [[nodiscard]] std::int64_t origin() const { return kind == Kind::distance ? line->at : 0; }
  /// Positions that have a place.
  [[nodiscard]] Range placed() const { return kind == Kind::distance ? line->positions(length) : Range{0, length}; }
  /// All positions that the axis can show.
  [[nodiscard]] figure::AxisLimits whole() const { return limitsOf(placed()); }
};

}  // namespace foxscope::gui::curves
