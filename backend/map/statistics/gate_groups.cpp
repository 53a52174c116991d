#include "backend/map/statistics/gate_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope {
namespace {

constexpr int kSmallestOctave = -24;
constexpr int kLargestOctave = 10;  // log f is clamped at -1000 (docs/models.md)
constexpr int kSteps = 16;          // in an octave
// Below the first step lies what is as good as f = 1; above the last nothing.
constexpr int kBins = 1 + (kLargestOctave - kSmallestOctave) * kSteps;
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr double kLogHalf = -0.6931471805599453;
/// How far rounding may put a difference of two sums from the log f that was added, in parts of the larger sum.
constexpr double kSumRounding = 2 * std::numeric_limits<double>::epsilon();

std::size_t bin_of(double negative_log_gate) {
  if (!(negative_log_gate > 0)) return 0;
  const double step = (std::log2(negative_log_gate) - kSmallestOctave) * kSteps;
  return step < 0 ? 0 : static_cast<std::size_t>(std::min(kBins - 1.0, 1.0 + std::floor(step)));
}

/// -log f at a place in a bin, 0 to 1 from its lower end.
double value_at(std::size_t bin, double place) {
  if (bin == 0) return 0;
  return std::exp2(kSmallestOctave + (static_cast<double>(bin) - 1.0 + place) / kSteps);
}

}  // namespace

void GateTally::add(double log_gate, double rounding) {
  if (state_.histogram.empty()) state_.histogram.resize(kBins);
  ++state_.histogram[bin_of(-log_gate)];
  ++state_.count;
  state_.sum += log_gate;
  state_.below_half += log_gate < kLogHalf - rounding ? 1 : 0;
}

void GateTally::add(const GateTally& other) {
  if (other.state_.histogram.empty()) return;
  if (state_.histogram.empty()) state_.histogram.resize(kBins);
  std::transform(state_.histogram.begin(), state_.histogram.end(), other.state_.histogram.begin(),
                 state_.histogram.begin(), std::plus());
  state_.count += other.state_.count;
  state_.sum += other.state_.sum;
  state_.below_half += other.state_.below_half;
}

double GateTally::below_half() const {
  return std::isnan(state_.sum) ? kNoValue : static_cast<double>(state_.below_half);
}

double GateTally::quantile(double p) const {
  if (std::isnan(state_.sum)) return kNoValue;
  const double place = p * static_cast<double>(state_.count - 1);
  const double below = std::floor(place);
  const double gate = order_statistic(static_cast<std::int64_t>(below));
  if (place == below) return gate;
  return std::lerp(gate, order_statistic(static_cast<std::int64_t>(below) + 1), place - below);
}

double GateTally::order_statistic(std::int64_t n) const {
  // Large f is small -log f, in the first bins. Values of one bin are taken to be spread evenly over it.
  std::int64_t larger = state_.count - 1 - n;
  for (std::size_t bin = 0; bin < state_.histogram.size(); ++bin) {
    const std::int64_t here = state_.histogram[bin];
    if (larger < here) {
      return std::exp(-value_at(bin, (static_cast<double>(larger) + 0.5) / static_cast<double>(here)));
    }
    larger -= here;
  }
  return kNoValue;
}

GateGroup GateTally::summary() const {
  if (state_.count == 0) return {0, kNoValue, kNoValue, kNoValue, kNoValue, kNoValue};
  const auto count = static_cast<double>(state_.count);
  return {state_.count, state_.sum / count, quantile(0.25), quantile(0.5), quantile(0.75), below_half() / count};
}

std::vector<GateTally> tally_gates(std::span<const double> c, std::span<const std::uint8_t> groups, std::size_t count) {
  std::vector<GateTally> tallies(count);
  double before = 0;
  for (std::size_t position = 0; position < c.size(); ++position) {
    const double log_gate = c[position] - before;
    before = c[position];
    const double rounding = kSumRounding * std::abs(before);
    for (std::size_t group = 0; group < count; ++group) {
      if ((groups[position] >> group & 1U) != 0) tallies[group].add(log_gate, rounding);
    }
  }
  return tallies;
}

}  // namespace foxscope
