#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/base/index.h"

namespace foxscope {

/// First position that rows to come may still see: all before it together hold at most `share` of any later row.
/// With |S_ij| <= logit_bound for every pair, A_ij <= exp(S_ij - S_ii + c_i - c_j) <= exp(2 logit_bound + c_i - c_j),
/// and c_j does not increase, so the n keys up to j hold at most n exp(2 logit_bound + c_i - c_j); c_i only falls.
/// @param cumulative  c of the positions from `first` on, nats
/// @param share       0: nothing is given up
std::int64_t first_needed_key(std::span<const double> cumulative, std::int64_t first, double logit_bound, double share);

/// c_j = sum_{l<=j} log f_l of one head for the positions that a cache still holds, nats, in compensated float64.
class GateHistory {
 public:
  /// Takes over the sums of a pass over the first positions.
  void start(std::span<const double> cumulative);
  /// One more position. log f is clamped as everywhere.
  void append(double log_gate);
  /// Lets go of what lies before a position.
  void drop_before(std::int64_t position);

  [[nodiscard]] std::int64_t first() const { return first_; }
  [[nodiscard]] std::int64_t end() const { return first_ + static_cast<std::int64_t>(values_.size()); }
  [[nodiscard]] double last() const { return values_.back(); }
  /// c of a position that is held.
  [[nodiscard]] double at(std::int64_t position) const { return values_[index_of(position - first_)]; }
  [[nodiscard]] const double* from(std::int64_t position) const { return values_.data() + (position - first_); }

  /// first_needed_key of what is held.
  [[nodiscard]] std::int64_t first_needed(double logit_bound, double share) const;

 private:
  std::int64_t first_ = 0;
  double sum_ = 0;
  double lost_ = 0;  ///< what rounding took from the sum (Neumaier 1974)
  std::vector<double> values_;
};

}  // namespace foxscope
