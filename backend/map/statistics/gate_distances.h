#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// Bins of distances of F or log F of one head, by the structure of docs/maps.md: c never increases, so of one query
/// the nearest key of a bin has the largest entry and the farthest the smallest, and sums over a bin's keys slide along
/// with the query. A bin costs O(rows + its distances).
class GateDistances {
 public:
  /// @param c        [L] nats, non-increasing; must outlive the object
  /// @param window   keys that a query sees; 0: all
  /// @param request  by distance
  GateDistances(std::span<const double> c, std::int64_t window, const MapRequest& request);

  /// Values of one bin of distances, [pixel_rows]; NaN where there is no entry.
  void bin(std::int64_t index, double* out) const;

 private:
  /// i - j of a bin, up to the window's edge.
  [[nodiscard]] Range differences(std::int64_t index) const;
  void extremes(const Range& differences, double* out) const;
  void means(const Range& differences, double* out) const;
  /// For each j of `last`: the sum of exp(c_j - c_j'), or of c_j - c_j', over j' in (j - width, j], from 0 on.
  void sliding_sums(const Range& last, std::int64_t width, double* out) const;
  [[nodiscard]] double c(std::int64_t position) const;

  std::span<const double> c_;
  std::int64_t window_;
  Range rows_;
  const std::vector<std::int64_t>& distances_;
  bool logarithm_;  ///< log F instead of F
  Reduction reduction_;
  std::vector<std::int64_t> row_edges_;
  std::vector<double> gate_;  ///< [rows_.end] f_i = exp(c_i - c_(i-1)), for means of F
  std::int64_t first_nan_;    ///< the first position whose c is NaN; those after it are, too
};

}  // namespace foxscope
