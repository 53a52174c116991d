#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "backend/map/head_entries.h"
#include "backend/map/team.h"

namespace foxscope {

/// One tile of a band: up to 64 queries, and the keys of one block that any of them sees.
struct BandTile {
  std::int64_t strip = 0;  ///< which 64 queries of the band
  Range rows;
  Range keys;
  bool cut = false;  ///< some entries are absent: the diagonal or the window's edge passes through
};

/// Visits the tiles of rows x columns that hold present entries, block of keys by block of keys, from the diagonal to
/// the left, as the delta rule has them.
/// @param rows       at most kLongBandRows
/// @param set_chunk  called with the keys of the tiles that follow, at most kKeyChunk
/// @param body       called with each BandTile
/// @returns false if the team was stopped on the way
template <typename SetChunk, typename Body>
bool for_each_tile(const Range& rows, const Range& columns, std::int64_t window, const Team& team,
                   const SetChunk& set_chunk, const Body& body) {
  using kernels::cpu::kMapTile;
  assert(rows.size() > 0 && rows.size() <= kLongBandRows && window >= 0);
  const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, rows.begin - window + 1);
  const std::int64_t first = std::max(columns.begin, oldest);
  for (std::int64_t end = std::min(columns.end, rows.end); end > first;) {
    if (team.stopped()) return false;
    const Range chunk{std::max(first, (end - 1) / kKeyChunk * kKeyChunk), end};
    set_chunk(chunk);
    while (end > chunk.begin) {
      BandTile tile;
      tile.keys = {std::max(chunk.begin, (end - 1) / kMapTile * kMapTile), end};
      for (std::int64_t row = rows.begin; row < rows.end; row += kMapTile, ++tile.strip) {
        tile.rows = {row, std::min(row + kMapTile, rows.end)};
        const bool before_window = window != 0 && tile.keys.end <= row - window + 1;
        if (tile.keys.begin >= tile.rows.end || before_window) continue;
        tile.cut = tile.keys.end - 1 > row || (window != 0 && tile.keys.begin <= tile.rows.end - 1 - window);
        body(tile);
      }
      end = tile.keys.begin;
    }
  }
  return true;
}

}  // namespace foxscope
