#pragma once

#include <optional>
#include <string>

#include "app/gui/maps/map_picture.h"
#include "backend/map/map_line.h"

namespace foxscope::gui {

/// Entries of a head on one line of its map, in positions of its own run.
struct EntryLine {
  EntryRequest entry;                   ///< that the line goes through
  std::optional<MapLine::Along> along;  ///< nothing: the entry alone
  Range rows;                           ///< what of the line is wanted; not for a single entry
  Range columns;
};

/// Tab-separated lines "i, token, j, token, distance i − j, value", one for each entry that exists, with the exact
/// values and the tokens that the positions read; above them the names of the columns, unless it is a single entry.
struct EntryTable {
  std::string text;
  std::int64_t entries = 0;
};

/// @returns nothing if the job was stopped. @throws as line_entries
std::optional<EntryTable> tableOf(const EntryLine& line, const Job& job);

}  // namespace foxscope::gui
