#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::gui::curves {

/// One row of a head: what query `query` makes of every key up to itself. [query + 1] each, NaN outside the window.
struct RowProfile {
  std::int64_t query = 0;
  std::vector<double> forget;
  std::vector<double> logForget;             ///< nats
  std::vector<double> attention;             ///< empty where queries, keys or row normalisers were not kept
  std::vector<double> attentionWithoutGate;  ///< softmax of the logits alone; likewise
};

/// Reads one row exactly. The softmax without the gate is made from the row's own logits: its normaliser as kept beside
/// the trace would cost a pass over all rows.
/// @returns nothing if the job was stopped
/// @throws what compute_map throws
std::optional<RowProfile> rowProfile(const HeadOf& head, std::int64_t query, const Job& job);

/// Indices of the `count` largest values that are above 0, largest first.
std::vector<std::int64_t> strongest(const std::vector<double>& values, int count);

}  // namespace foxscope::gui::curves
