#include "app/gui/maps/view_motion.h"

#include <algorithm>
#include <cmath>

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

Range grown(const Range& range, std::int64_t size, std::int64_t length) {
  const std::int64_t begin = range.begin - (size - range.size()) / 2;
  return clampedRange({begin, begin + size}, length);
}

}  // namespace

View wholeView(std::int64_t length) { return {{0, length}, {0, length}}; }

View clamped(const View& view, std::int64_t length) {
  return {clampedRange(view.rows, length), clampedRange(view.columns, length)};
}

View zoomed(const View& view, double factor, const Anchor& anchor, ZoomAxes axes, std::int64_t length) {
  View result = clamped(view, length);
  if (axes != ZoomAxes::columns) result.rows = zoomedRange(result.rows, factor, anchor.row, length);
  if (axes != ZoomAxes::rows) result.columns = zoomedRange(result.columns, factor, anchor.column, length);
  return result;
}

View panned(const View& view, std::int64_t rows, std::int64_t columns, std::int64_t length) {
  return clamped(
      {{view.rows.begin + rows, view.rows.end + rows}, {view.columns.begin + columns, view.columns.end + columns}},
      length);
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
