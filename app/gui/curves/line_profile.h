#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/map/map_line.h"

namespace foxscope::gui::curves {

/// One line of a head's map, exact. Values by position of the line (MapLine), from 0 to its last one; NaN where no pair
/// stands, or outside the window.
struct LineProfile {
  MapLine line;
  std::vector<double> forget;
  std::vector<double> logForget;             ///< nats
  std::vector<double> attention;             ///< empty where queries, keys or row normalisers were not kept
  std::vector<double> attentionWithoutGate;  ///< softmax of the logits alone; likewise
  /// The kinds of attention that take a pass over all rows of the head (needs_all_rows), empty here: lineValues gives
  /// them.
  std::vector<Quantity> missing;
};

/// Reads what takes no pass over all rows. A row's softmax without the gate is made from its own logits.
/// @returns nothing if the job was stopped
/// @throws what compute_map throws
std::optional<LineProfile> lineProfile(const HeadOf& head, const MapLine& line, const Job& job);

/// One quantity along a line, as values of a LineProfile. @returns and throws likewise
std::optional<std::vector<double>> lineValues(const HeadOf& head, const MapLine& line, Quantity quantity,
                                              const Job& job);

/// Indices of the `count` largest values that are above 0, largest first.
std::vector<std::int64_t> strongest(const std::vector<double>& values, int count);

}  // namespace foxscope::gui::curves
