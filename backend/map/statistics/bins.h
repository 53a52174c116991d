#pragma once

#include <cstdint>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// Where every bin begins, and where the last one ends: [bins + 1].
std::vector<std::int64_t> bin_edges(const Range& range, std::int64_t bins);

/// The bin that holds `position`, the inverse of bin_begin.
std::int64_t bin_of(const Range& range, std::int64_t bins, std::int64_t position);

/// Edges of bins of i - j, [n] for edges of bins of distances i - j + 1. They end where the window does: bins beyond it
/// have none, so there may be fewer.
std::vector<std::int64_t> diagonal_edges(const std::vector<std::int64_t>& distances, std::int64_t window);

/// Number of present entries (j <= i, and i - j < window) of rows x columns. A window of 0 sees everything before it.
std::int64_t present_entries(const Range& rows, const Range& columns, std::int64_t window);

/// Which pixels of one line have all, some or none of their entries: none before `present_begin` and from
/// `present_end` on, all in [full_begin, full_end), some (perhaps none, where both edges cut a bin) in between.
struct PixelLine {
  std::int64_t present_begin = 0;
  std::int64_t full_begin = 0;
  std::int64_t full_end = 0;
  std::int64_t present_end = 0;
};
PixelLine pixel_line(const Range& rows, const std::vector<std::int64_t>& column_edges, std::int64_t window);

/// The narrower of two windows, 0 being the widest: entries of a difference are present where both have them.
std::int64_t common_window(std::int64_t a, std::int64_t b);

}  // namespace foxscope
