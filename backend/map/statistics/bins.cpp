#include "backend/map/statistics/bins.h"

#include <algorithm>
#include <cassert>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Number of pairs of rows x columns with column <= row - lag.
std::int64_t pairs_below(const Range& rows, const Range& columns, std::int64_t lag) {
  // Row i has clamp(i - lag + 1 - columns.begin, 0, columns.size()) of them: nothing, then a ramp, then all.
  const std::int64_t width = columns.size();
  const std::int64_t ramp_begin = std::clamp(columns.begin + lag, rows.begin, rows.end);
  const std::int64_t ramp_end = std::clamp(columns.begin + lag + width, rows.begin, rows.end);
  const std::int64_t ramp_rows = ramp_end - ramp_begin;
  const std::int64_t first = ramp_begin - lag + 1 - columns.begin;
  return ramp_rows * first + ramp_rows * (ramp_rows - 1) / 2 + (rows.end - ramp_end) * width;
}

}  // namespace

std::int64_t bin_begin(const Range& range, std::int64_t bins, std::int64_t index) {
  assert(bins >= 1 && index >= 0 && index <= bins);
  return range.begin + index * range.size() / bins;
}

std::vector<std::int64_t> bin_edges(const Range& range, std::int64_t bins) {
  std::vector<std::int64_t> edges(static_cast<std::size_t>(bins) + 1);
  for (std::int64_t n = 0; n <= bins; ++n) edges[index_of(n)] = bin_begin(range, bins, n);
  return edges;
}

std::int64_t bin_of(const Range& range, std::int64_t bins, std::int64_t position) {
  assert(bins >= 1 && position >= range.begin && position < range.end);
  return ((position - range.begin + 1) * bins - 1) / range.size();
}

std::vector<std::int64_t> diagonal_edges(const std::vector<std::int64_t>& distances, std::int64_t window) {
  std::vector<std::int64_t> edges;
  for (const std::int64_t distance : distances) {
    const bool inside = window == 0 || distance - 1 < window;
    edges.push_back(inside ? distance - 1 : window);
    if (!inside) break;
  }
  return edges;
}

std::int64_t present_entries(const Range& rows, const Range& columns, std::int64_t window) {
  return pairs_below(rows, columns, 0) - (window == 0 ? 0 : pairs_below(rows, columns, window));
}

PixelLine pixel_line(const Range& rows, const std::vector<std::int64_t>& column_edges, std::int64_t window) {
  assert(column_edges.size() > 1 && rows.size() > 0 && window >= 0);
  const auto begins = column_edges.begin();
  const auto begins_end = column_edges.end() - 1;
  const auto ends = column_edges.begin() + 1;
  PixelLine line;
  // Bins are ordered, so each of the four limits is one search.
  line.present_end = std::upper_bound(begins, begins_end, rows.end - 1) - begins;
  const std::int64_t whole = std::upper_bound(ends, column_edges.end(), rows.begin + 1) - ends;
  if (window > 0) {
    line.present_begin = std::upper_bound(ends, column_edges.end(), rows.begin - window + 1) - ends;
    line.full_begin = std::upper_bound(begins, begins_end, rows.end - 1 - window) - begins;
  }
  line.present_begin = std::min(line.present_begin, line.present_end);
  line.full_begin = std::clamp(line.full_begin, line.present_begin, line.present_end);
  line.full_end = std::clamp(whole, line.full_begin, line.present_end);
  assert(line.present_begin >= 0 && line.present_end < static_cast<std::int64_t>(column_edges.size()));
  return line;
}

std::int64_t common_window(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace foxscope
