#pragma once

#include <cstdint>
#include <vector>

#include "app/figure/curve_geometry.h"
#include "backend/map/map.h"

namespace foxscope::gui::curves {

/// What a plot's horizontal axis shows: positions, or distances back from a query. Its coordinates count from 0 or, on
/// a logarithmic axis, from 1, so that the first one has a place.
struct PositionAxis {
  enum class Kind { position, distance };
  Kind kind = Kind::position;
  figure::AxisScale scale = figure::AxisScale::linear;
  std::int64_t query = 0;  ///< where distances begin
  double first = 0;        ///< coordinate of position 0, or of distance 0
  std::int64_t length = 0;

  bool operator==(const PositionAxis&) const = default;

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
  /// All that the axis can show.
  [[nodiscard]] figure::AxisLimits whole() const { return limitsOf({0, kind == Kind::position ? length : query + 1}); }
};

}  // namespace foxscope::gui::curves
