#pragma once

#include <memory>
#include <optional>
#include <span>
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

/// Layers that have heads, none of which forgets.
std::vector<int> layersWithoutGate(const TraceInfo& info);

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

/// The positions of a map.
struct MapRegion {
  Range rows;     ///< queries
  Range columns;  ///< keys
};

/// Mean of F over the entries of a region, keys after their query left out; NaN where it has no other. A map of F is
/// dark where this is near 0, and one colour where it is near 1. O(length): with f_i = exp(c_i - c_{i-1}) the sum over
/// the keys of a row is s_i = f_i s_{i-1} + 1.
double meanRetained(std::span<const double> c, const MapRegion& region);

/// Heads of a gated run whose decay can be seen on a map, and the map's positions: those that were asked for, else one
/// square of the text: the whole, or where it is more than ten times as long as the longest memory its beginning, eight
/// times as long. The heads are chosen by chooseByReach among those that leave between a tenth and nine tenths of the
/// map's entries, meanRetained; where fewer than two do, among the three that come nearest to it. Where the longest of
/// these memories is not twice the shortest, those that come next to it are among them too.
struct HeadsOnMap {
  ChosenHeads chosen;
  MapRegion region;
};
/// @returns nothing if the job was stopped
/// @throws Error for gates that were not kept
std::optional<HeadsOnMap> headsOnMap(const RunOnDevice& trace, const std::optional<MapRegion>& asked, const Job& job);

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
