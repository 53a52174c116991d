#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/eval/heads/head_measures.h"

namespace foxscope {

/// A statistic of a head whose means over windows an atlas has.
struct AtlasNumber {
  std::string name;
  std::string unit;
  bool operator==(const AtlasNumber&) const = default;
};

/// How many of the numbers are of the gate; they come first.
std::size_t gate_number_count();

/// The statistics that an atlas of a model has: those of `eval heads` but the decay time, which follows from the mean
/// of log f. Those of attention are there with rows, and those of the split with all rows.
struct AtlasNumbers {
  std::vector<AtlasNumber> numbers;
  std::vector<AtlasNumber> profiles;  ///< by distance
  std::size_t masses = 0;             ///< the first profiles, which are 0 at distances that a window does not have
  bool operator==(const AtlasNumbers&) const = default;

  /// @param rows  AtlasShape::rows
  AtlasNumbers(const TraceInfo& info, std::int64_t rows);
  /// The numbers and profiles of these names, as a file has them.
  AtlasNumbers(const std::vector<std::string>& names, const std::vector<std::string>& profile_names);

  /// The numbers of one head in their order; NaN where it has none.
  [[nodiscard]] std::vector<HeadNumber> of(const HeadMeasures& measures) const;
};

}  // namespace foxscope
