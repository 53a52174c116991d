#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace foxscope {

/// A summary of the gates of a group of positions. All but the count are NaN if the group is empty or a gate is NaN.
struct GateGroup {
  std::int64_t count = 0;
  double mean_log_gate = 0;   ///< nats
  double lower_quartile = 0;  ///< of f
  double median = 0;
  double upper_quartile = 0;
  double share_below_half = 0;  ///< of positions with f < 0.5
};

/// Gates as they come in, in fixed memory: sums, and a histogram of -log f in steps of 1/16 octave from 2^-24 to 2^10
/// nats, so that -log f of a quartile is known to within 4.5 %, however few they are. Tallies of parts add up to that
/// of the whole.
class GateTally {
 public:
  /// The state of the tally, for whoever keeps or sends it.
  struct State {
    std::int64_t count = 0;
    std::int64_t below_half = 0;
    double sum = 0;
    std::vector<std::int64_t> histogram;  ///< empty while nothing was added
  };

  GateTally() = default;
  /// @param state  of a tally
  explicit GateTally(State state) : state_(std::move(state)) {}
  [[nodiscard]] const State& state() const { return state_; }

  /// @param log_gate  log f <= 0, nats
  /// @param rounding  how far from it rounding may have put it: f = 0.5 is not below itself
  void add(double log_gate, double rounding = 0);
  void add(const GateTally& other);
  [[nodiscard]] GateGroup summary() const;
  [[nodiscard]] std::int64_t count() const { return state_.count; }
  [[nodiscard]] double sum_log_gate() const { return state_.sum; }
  /// NaN where a gate is.
  [[nodiscard]] double below_half() const;

 private:
  /// The quantile of f at p (count - 1) between order statistics, interpolated.
  [[nodiscard]] double quantile(double p) const;
  /// The n-th f, from 0 for the smallest.
  [[nodiscard]] double order_statistic(std::int64_t n) const;

  State state_;
};

/// Gates of one head by group of positions.
/// @param c       [L] cumulative log gates, nats
/// @param groups  [L] bit n: the position is in group n; a position may be in several groups, or in none
/// @param count   number of groups, at most 8
std::vector<GateTally> tally_gates(std::span<const double> c, std::span<const std::uint8_t> groups, std::size_t count);

}  // namespace foxscope
