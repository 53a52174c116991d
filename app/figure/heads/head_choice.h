#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::figure {

/// A head by its numbers.
struct HeadIndex {
  int layer = 0;
  int head = 0;
  bool operator==(const HeadIndex&) const = default;
};

/// @throws UsageError naming the layers and the heads that there are
void requireHead(const TraceInfo& info, const HeadIndex& head);

/// Heads that show what a model does, and why they were chosen.
struct ChosenHeads {
  std::vector<HeadIndex> heads;
  std::string note;
};

/// How far back a head looks, tokens.
struct Reach {
  HeadIndex head;
  double tokens = 0;
};

/// The smallest and the largest reach, and the one nearest to their geometric mean. A reach that is NaN is not chosen.
/// @param reaches  one a head, at least one
/// @param by       what the reach is, for the note
/// @throws Error where all are NaN
ChosenHeads chooseByReach(std::vector<Reach> reaches, const std::string& model, const std::string& by);

/// Heads of a gated run whose decay can be seen on a map of one square of the text, and that square's positions: the
/// whole text, or where it is more than ten times as long as the longest memory its beginning, eight times as long. The
/// heads are chosen by chooseByReach among those of decay times from a 50th to half of that; where fewer than two are,
/// among all.
struct HeadsOnMap {
  ChosenHeads chosen;
  Range positions;
};
/// @returns nothing if the job was stopped
/// @throws Error for gates that were not kept
std::optional<HeadsOnMap> headsOnMap(const RunOnDevice& trace, const Job& job);

/// The middle one of those heads, for a map of one head.
struct HeadOnMap {
  HeadIndex head;
  Range positions;
  std::string note;  ///< what was chosen, and how others are
};
/// @param crops  whether the positions may be a part of the text; else heads are chosen by representativeHeads
/// @returns nothing if the job was stopped
/// @throws Error as headsOnMap and representativeHeads
std::optional<HeadOnMap> headOnMap(const RunOnDevice& trace, bool crops, const Job& job);

/// The beginning of the text on which a head's decay can be seen: eight decay times, and at least 64 positions. Nothing
/// where it can be seen on the whole text, since the decay time is at least a 50th of it, for a head without a gate,
/// and where gates were not kept.
std::optional<Range> beginningThatShows(const HeadOf& head);

/// Heads of short, middle and long memory: the smallest and the largest decay time -1/mean(log f), and the one nearest
/// to their geometric mean, of layers that forget; of a model without any likewise by the distance within which half of
/// the attention is.
/// @returns nothing if the job was stopped
/// @throws Error for gates, or queries and keys, that were not kept
std::optional<ChosenHeads> representativeHeads(const RunOnDevice& trace, const Job& job);

}  // namespace foxscope::figure
