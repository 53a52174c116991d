#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace foxscope::gui::curves {

/// Values along the text at full resolution, by position of the reference run.
struct Series {
  std::vector<double> value;     ///< NaN: there is none
  std::vector<double> position;  ///< as long as `value`, never falling; empty: value p stands at position p

  [[nodiscard]] std::size_t size() const { return value.size(); }
  [[nodiscard]] double positionAt(std::size_t index) const;
  /// The last value at or before a position; nothing where there is none, or the position is past the end.
  [[nodiscard]] std::optional<std::size_t> indexAt(double position) const;
  /// The first value at or after a position; size() where there is none.
  [[nodiscard]] std::size_t firstFrom(double position) const;
};

struct Point {
  double position = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

/// Centred running mean over `window` values (docs/evaluation.md, Losses): (window - 1) / 2 before and window / 2
/// after, fewer at the ends and beside values that are NaN; NaN only where there is none at all.
/// @param window  at least 1
std::vector<double> smoothed(std::span<const double> values, int window);

/// Mean of values 0..p at p, NaN left out.
std::vector<double> meansSoFar(std::span<const double> values);

/// The points that a series is drawn by: in every column [edges[k], edges[k + 1]) of positions its least and its
/// largest value, in their order, or all values where they are no more than two. A column without any number gives one
/// NaN, a gap.
/// @param edges  never falling
std::vector<Point> decimated(const Series& series, std::span<const double> edges);

}  // namespace foxscope::gui::curves
