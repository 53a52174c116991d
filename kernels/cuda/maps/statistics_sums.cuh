// Sums of statistics in fixed point, so that they do not depend on the order in which they come. Private to
// kernels/cuda.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/maps/attention_statistics.h"

namespace foxscope::kernels::cuda::maps {

/// Sums over rows are whole numbers of this part.
constexpr double kSumScale = 1LL << 34;

using Fixed = unsigned long long;

/// Where a sum lies: these, then the masses of L distances with key 0, then those without.
enum SumIndex : std::int64_t {
  kEntropy,
  kOnFirst,
  kLogDecay,
  kRowsBeside,
  kFewRowsBeside,
  kManyRowsBeside,
  kSquare,
  kOnRepeats,
  kMass
};

/// The sums of a head of L positions.
struct FixedSums {
  Fixed* sum = nullptr;    ///< [kMass + 2 L], 0 at first
  int* unknown = nullptr;  ///< likewise: not 0 where something was added that is no finite number
  double mass_scale = 0;   ///< scale_of_masses

  __device__ __forceinline__ void add(std::int64_t index, double value, double scale) const {
    const double scaled = value * scale;
    if (fabs(scaled) < 0x1p62) {
      atomicAdd(sum + index, static_cast<Fixed>(__double2ll_rn(scaled)));
    } else {
      atomicOr(unknown + index, 1);
    }
  }

  /// Counts the rows of a warp that have mass beside key 0. All lanes call it.
  /// @param row     of this lane
  /// @param counts  whether it has; of no lane beyond the rows
  __device__ __forceinline__ void count_rows(std::int64_t row, bool counts) const {
    const auto add_count = [&](std::int64_t index, bool mine) {
      const auto count = static_cast<Fixed>(__popc(__ballot_sync(0xffffffffU, mine)));
      if (threadIdx.x % 32 == 0 && count > 0) atomicAdd(sum + index, count);
    };
    add_count(kRowsBeside, counts);
    add_count(kFewRowsBeside, counts && row <= kFewRows);
    add_count(kManyRowsBeside, counts && row <= kManyRows);
  }

  [[nodiscard]] __device__ __forceinline__ double value(std::int64_t index, double scale) const {
    return unknown[index] != 0 ? nan("") : static_cast<double>(static_cast<long long>(sum[index])) / scale;
  }

  /// Writes a distance's masses, and with distance 0 the other sums.
  __device__ __forceinline__ void finish(int distance, int length, AttentionSums& sums, double* mass,
                                         double* mass_without_first) const {
    if (distance == 0) {
      sums = {value(kEntropy, kSumScale), value(kOnFirst, kSumScale),  value(kLogDecay, kSumScale),
              value(kRowsBeside, 1),      value(kFewRowsBeside, 1),    value(kManyRowsBeside, 1),
              value(kSquare, kSumScale),  value(kOnRepeats, kSumScale)};
    }
    if (distance >= length) return;
    mass[distance] = value(kMass + distance, mass_scale);
    mass_without_first[distance] = value(kMass + length + distance, mass_scale);
  }
};

/// Shares of at most one a row: sums have room for all rows.
inline double scale_of_masses(std::int64_t length) {
  return std::exp2(62 - std::ceil(std::log2(static_cast<double>(length) + 1)));
}

}  // namespace foxscope::kernels::cuda::maps
