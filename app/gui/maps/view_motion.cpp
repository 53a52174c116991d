#include "app/gui/maps/view_motion.h"

#include <algorithm>
#include <cmath>

#include "backend/map/distance_axis.h"

namespace foxscope::gui {
namespace {

Range clampedRange(const Range& range, std::int64_t length) {
  const std::int64_t size = std::clamp<std::int64_t>(range.size(), 1, length);
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin, 0, length - size);
  return {begin, begin + size};
}

Range zoomedRange(const Range& range, double factor, double anchor, std::int64_t length) {
  const auto size = static_cast<double>(range.size());
  auto wanted = static_cast<std::int64_t>(std::llround(std::min(size * factor, static_cast<double>(length))));
  if (factor < 1) wanted = std::min(wanted, range.size() - 1);
  if (factor > 1) wanted = std::max(wanted, range.size() + 1);
  wanted = std::clamp<std::int64_t>(wanted, 1, length);
  // The token under the pointer stays under it: the share of the range before it is the same as it was.
  const double before = std::clamp(anchor, 0.0, 1.0) * (size - static_cast<double>(wanted));
  const std::int64_t begin = range.begin + std::llround(before);
  return clampedRange({begin, begin + wanted}, length);
}

/// Distances [from, to) of a text: fractions of one take all of it.
Range wholeDistances(double from, double to, std::int64_t length) {
  const std::int64_t begin = std::clamp<std::int64_t>(std::llround(from), 1, length);
  return {begin, std::clamp<std::int64_t>(std::llround(to), begin + 1, length + 1)};
}

Range grown(const Range& range, std::int64_t size, std::int64_t length) {
  const std::int64_t begin = range.begin - (size - range.size()) / 2;
  return clampedRange({begin, begin + size}, length);
}

}  // namespace

View wholeView(std::int64_t length) { return {{0, length}, {0, length}}; }

View clamped(const View& view, std::int64_t length) {
  const Range& distances = view.distances;
  const bool some = distances.begin >= 1 && distances.size() > 0 && distances.end <= length + 1;
  return {clampedRange(view.rows, length), clampedRange(view.columns, length), some ? distances : Range{}};
}

View zoomed(const View& view, double factor, const Anchor& anchor, ZoomAxes axes, std::int64_t length) {
  View result = clamped(view, length);
  if (axes != ZoomAxes::columns) result.rows = zoomedRange(result.rows, factor, anchor.row, length);
  if (axes != ZoomAxes::rows) result.columns = zoomedRange(result.columns, factor, anchor.column, length);
  return result;
}

View panned(const View& view, std::int64_t rows, std::int64_t columns, std::int64_t length) {
  return clamped({{view.rows.begin + rows, view.rows.end + rows},
                  {view.columns.begin + columns, view.columns.end + columns},
                  view.distances},
                 length);
}

Range shownDistances(const View& view, std::int64_t length) {
  const Range distances = clamped(view, length).distances;
  return distances.size() > 0 ? distances : Range{1, length + 1};
}

View viewByDistance(const Range& queries, const Range& distances, std::int64_t length) {
  View view;
  view.rows = clampedRange(queries, length);
  const Range all{1, length + 1};
  if (distances != all) view.distances = distances;
  const std::int64_t begin = std::max<std::int64_t>(0, view.rows.begin - (distances.end - 2));
  view.columns = {std::min(begin, length - 1), std::max(begin + 1, view.rows.end - (distances.begin - 1))};
  return clamped(view, length);
}

View zoomedByDistance(const View& view, double factor, const Anchor& anchor, ZoomAxes axes, std::int64_t length) {
  Range queries = clampedRange(view.rows, length);
  Range distances = shownDistances(view, length);
  if (axes != ZoomAxes::rows) queries = zoomedRange(queries, factor, anchor.column, length);
  if (axes != ZoomAxes::columns) {
    // The logarithm of the distance under the pointer keeps its place.
    const double from = std::log(static_cast<double>(distances.begin));
    const double size = std::log(static_cast<double>(distances.end)) - from;
    const double place = 1 - std::clamp(anchor.row, 0.0, 1.0);
    const double lower = from + place * size * (1 - factor);
    distances = wholeDistances(std::exp(lower), std::exp(lower + size * factor), length);
  }
  return viewByDistance(queries, distances, length);
}

View pannedByDistance(const View& view, std::int64_t queries, double share, std::int64_t length) {
  const Range distances = shownDistances(view, length);
  const Range moved{view.rows.begin + queries, view.rows.end + queries};
  const double from = std::log(static_cast<double>(distances.begin));
  const double to = std::log(static_cast<double>(distances.end));
  // Both ends move as far as the nearer one can.
  const double step = std::clamp(share * (to - from), -from, std::log(static_cast<double>(length + 1)) - to);
  return viewByDistance(
      moved, step == 0 ? distances : wholeDistances(std::exp(from + step), std::exp(to + step), length), length);
}

View viewAround(const Cursor& place, std::int64_t tokens, std::int64_t length) {
  const std::int64_t row = place.query.value_or(place.key.value_or(0));
  const std::int64_t column = place.key.value_or(row);
  const auto around = [&](std::int64_t middle) { return Range{middle - tokens / 2, middle - tokens / 2 + tokens}; };
  return clamped({around(row), around(column)}, length);
}

View squared(const View& view, std::int64_t length) {
  const std::int64_t size = std::max(view.rows.size(), view.columns.size());
  return {grown(view.rows, size, length), grown(view.columns, size, length)};
}

}  // namespace foxscope::gui
