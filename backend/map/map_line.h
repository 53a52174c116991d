#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// A straight line through a map: what one query makes of every key, what every query makes of one key, or all pairs
/// that are equally far apart. Its positions are the keys of a row, and the queries of a column and a diagonal.
struct MapLine {
  enum class Along { row, column, diagonal };
  Along along = Along::row;
  std::int64_t at = 0;  ///< the query of a row, the key of a column, the distance i - j of a diagonal
  bool operator==(const MapLine&) const = default;

  /// The line through a pair.
  static MapLine through(Along along, std::int64_t query, std::int64_t key);
  [[nodiscard]] std::int64_t query(std::int64_t position) const { return along == Along::row ? at : position; }
  [[nodiscard]] std::int64_t key(std::int64_t position) const;
  /// Positions of a text of `length` tokens that have a key at or before their query.
  [[nodiscard]] Range positions(std::int64_t length) const;
};

struct LineRequest {
  HeadOf head;
  std::optional<HeadOf> minus = {};  ///< MapRequest::minus
  Quantity quantity = Quantity::attention;
  FirstKey first_key = FirstKey::counted;
  MapLine line;
  Range positions;  ///< of the line: within MapLine::positions
};

/// The exact entries of a line by compute_map, in O(L) memory: a row and a column as a map that is one entry wide, a
/// diagonal in small squares along it.
/// @returns [positions] float32, NaN outside the window; nothing if the job was stopped
/// @throws what compute_map throws
std::optional<std::vector<float>> line_entries(const LineRequest& request, const Job& job);

/// Whether a column or a diagonal of a head waits for a pass over all its rows: normalisers that are not known yet, or
/// the delta rule, in which every entry hangs on the keys between. Other lines take one product a query.
bool needs_all_rows(const HeadOf& head, Quantity quantity);

}  // namespace foxscope
