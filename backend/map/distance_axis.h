#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// The columns of a map: keys j, or distances i - j + 1, of which 1 is the query itself.
enum class MapAxes { key, distance };

const char* to_string(MapAxes axes);
/// @throws UsageError naming those that exist
MapAxes axes_from_string(const std::string& name);

/// A head that remembers less than this share of the text is a thin diagonal on axes of keys.
inline constexpr double kThinShare = 0.02;

/// Decay time of the head's gates, tokens (decay_time.h); infinite where it does not forget, and where the run kept no
/// gates to tell by.
double decay_time_of(const HeadOf& head);

/// Distance for a quantity that the gate makes small (forget, attention, mixing) of a head whose decay time, or whose
/// window, is below kThinShare of `tokens`; else key.
MapAxes default_axes(Quantity quantity, const HeadOf& head, std::int64_t tokens);

/// A logarithmic axis of distances: distance d takes the part from log(d) to log(d + 1).
struct DistanceAxis {
  Range distances;          ///< from 1 on, at least one
  std::int64_t pixels = 1;  ///< of a picture along the axis

  bool operator==(const DistanceAxis&) const = default;
  /// The share of the axis that lies before distance d: log(d / begin) / log(end / begin). d may be a fraction.
  [[nodiscard]] double place(double distance) const;
  /// The place of the middle of what d takes, where its tick stands.
  [[nodiscard]] double middle(double distance) const;
  /// The distance that takes a place, held inside the axis.
  [[nodiscard]] std::int64_t at(double place) const;
  /// The distance at the beginning of a pixel, 0 the nearest; of pixel `pixels` the axis' end.
  [[nodiscard]] std::int64_t edge(std::int64_t pixel) const;
  /// [pixels + 1] of all of them, for MapRequest::set_distances: a pixel holds the distances from its beginning up to
  /// the next pixel's. Pixels that begin within one distance repeat it; every distance is in one bin.
  [[nodiscard]] std::vector<std::int64_t> edges() const;
};

/// Edges of bins of a single distance each.
std::vector<std::int64_t> single_distances(const Range& distances);
/// Edges without repeats.
std::vector<std::int64_t> distinct(std::vector<std::int64_t> edges);

/// A map by distance as it is drawn: [columns, rows] of the image, the farthest distance first, queries across.
Image drawn_by_distance(const Image& image);

/// The image with rows and columns exchanged.
Image transposed(const Image& image);

}  // namespace foxscope
