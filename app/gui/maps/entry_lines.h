#pragma once

#include <optional>
#include <string>

#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// Entries of a head on one line of its map, in positions of its own run.
struct EntryLine {
  enum class Along { single, row, column, diagonal };
  EntryRequest entry;  ///< that the line goes through
  Along along = Along::single;
  Range rows;  ///< what of the line is wanted; not for a single entry
  Range columns;
};

/// Tab-separated lines "i, token, j, token, distance i − j, value", one for each entry that exists, with the exact
/// values and the tokens that the positions read; above them the names of the columns, unless it is a single entry.
struct EntryTable {
  std::string text;
  std::int64_t entries = 0;
};

/// Attention takes one pass over the part that the line lies in, softmax without the gate over its rows.
/// @returns nothing if the job was stopped. @throws as compute_map
std::optional<EntryTable> tableOf(const EntryLine& line, const Job& job);

}  // namespace foxscope::gui
