#include "backend/map/statistics/gate_statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/base/index.h"
#include "backend/map/team.h"
#include "backend/trace/decay_time.h"
#include "kernels/gate_sums.h"

namespace foxscope {
namespace {

constexpr std::int64_t kLevels = std::size(kHorizonLevel);

/// The first 18 bits of a number whose order is that of doubles: sign, exponent and a part of an octave.
std::size_t part_of_octave(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t ordered = (bits >> 63U) != 0 ? ~bits : bits | (std::uint64_t{1} << 63U);
  return static_cast<std::size_t>(ordered >> 46U);
}

/// Arrays that threads keep from head to head: taking memory anew costs more than filling it.
struct GateScratch {
  std::vector<double> values;         ///< that quantiles are taken of
  std::vector<double> parts;          ///< the same, part by part
  std::vector<std::uint32_t> begins;  ///< of the parts, and the end of the last
  std::vector<std::uint32_t> next;
  std::vector<std::uint32_t> oldest;
  std::vector<std::uint32_t> beyond;
};

/// Values by parts of octaves, so that an order statistic is looked for in one part.
class OrderStatistics {
 public:
  /// @param scratch  its values, at least one; must outlive the object
  explicit OrderStatistics(GateScratch& scratch) : scratch_(scratch) {
    const std::vector<double>& values = scratch.values;
    double least = values.front();
    double most = values.front();
    for (const double value : values) {
      least = value < least ? value : least;
      most = value > most ? value : most;
    }
    first_ = part_of_octave(least);
    last_ = part_of_octave(most);
    // Numbers near 0 have many octaves: those far below the largest are one part.
    if (least >= 0) first_ = std::max(first_, last_ - std::min(last_, kMostParts));
    if (least < 0) last_ = std::min(last_, first_ + kMostParts);
    std::vector<std::uint32_t>& begins = scratch.begins;
    begins.assign(last_ - first_ + 2, 0);
    for (const double value : values) ++begins[part_of(value) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    scratch.next.assign(begins.begin(), begins.end() - 1);
    scratch.parts.resize(values.size());
    for (const double value : values) scratch.parts[scratch.next[part_of(value)]++] = value;
  }

  /// The value with so many before it, and the one after it.
  std::pair<double, double> neighbours(std::size_t rank) {
    const auto end = std::ranges::upper_bound(scratch_.begins, rank);
    const auto at = scratch_.parts.begin() + static_cast<std::ptrdiff_t>(rank);
    const auto part_end = scratch_.parts.begin() + *end;
    std::nth_element(scratch_.parts.begin() + *(end - 1), at, part_end);
    if (at + 1 < part_end) return {*at, *std::min_element(at + 1, part_end)};
    if (part_end == scratch_.parts.end()) return {*at, *at};
    const auto next_end = std::ranges::upper_bound(scratch_.begins, rank + 1);
    return {*at, *std::min_element(part_end, scratch_.parts.begin() + *next_end)};
  }

 private:
  static constexpr std::size_t kMostParts = 1024;

  [[nodiscard]] std::size_t part_of(double value) const {
    return std::clamp(part_of_octave(value), first_, last_) - first_;
  }

  GateScratch& scratch_;
  std::size_t first_ = 0;  ///< part_of_octave of the first
  std::size_t last_ = 0;
};

constexpr std::array kGateShares = {0.0, 0.25, 0.5, 0.75, 1.0};
constexpr std::array kQuarters = {0.25, 0.5, 0.75};

/// Where the quantile of a share lies among so many values in their order: behind the value of a rank.
struct QuantilePlace {
  std::size_t rank = 0;
  double beyond = 0;  ///< of the way to the next value

  QuantilePlace(double share, std::size_t count) {
    const double place = share * static_cast<double>(count - 1);
    rank = static_cast<std::size_t>(place);
    beyond = place - static_cast<double>(rank);
  }
  /// @param of  what is made of a value: never falls
  template <typename Of>
  [[nodiscard]] double between(double low, double high, const Of& of) const {
    return beyond == 0.0 ? of(low) : of(low) + beyond * (of(high) - of(low));
  }
};

double exponential_of(double log_gate) { return std::exp(log_gate); }

/// quantile of each share of the values of the scratch.
/// @param of  QuantilePlace::between
template <std::size_t kCount, typename Of>
std::array<double, kCount> quantiles(GateScratch& scratch, const std::array<double, kCount>& shares, Of of) {
  OrderStatistics statistics(scratch);
  std::array<double, kCount> result{};
  for (std::size_t n = 0; n < kCount; ++n) {
    const QuantilePlace place(shares[n], scratch.values.size());
    const auto [low, high] = statistics.neighbours(place.rank);
    result[n] = place.between(low, high, of);
  }
  return result;
}

/// Quartiles of the values of the scratch.
/// @param cut_off  how many of them an end of the text cut off
Quartiles quartiles(GateScratch& scratch, std::int64_t cut_off) {
  const std::array<double, 3> at = quantiles(scratch, kQuarters, std::identity());
  return {at[0], at[1], at[2], static_cast<double>(cut_off) / static_cast<double>(scratch.values.size())};
}

/// Where between `kept` tokens, with log F `inside`, and one more, with log F `beyond`, log F is `level`.
double crossing(std::int64_t kept, double inside, double beyond, double level) {
  return static_cast<double>(kept) + (inside - level) / (inside - beyond);
}

/// Finds where F falls below a level: `oldest` [L] of each row, the first key of which F is at the level or above, and
/// `beyond` [L] of each key, the first row in which F is below it; L: none.
/// @param level  a logarithm
void find_falls(std::span<const double> c, double level, GateScratch& scratch) {
  const auto length = static_cast<std::uint32_t>(c.size());
  scratch.oldest.resize(length);
  scratch.beyond.assign(length, length);
  // c falls, so both only move forward. Which of them does next is as good as random, so nothing branches on it.
  std::uint32_t row = 0;
  std::uint32_t key = 0;
  while (row < length) {
    const std::uint32_t below = c[row] - c[key] < level ? 1 : 0;
    scratch.oldest[row] = key;
    scratch.beyond[key] = below != 0 ? row : length;
    key += below;
    row += 1 - below;
  }
}

/// How far back F(i, j) stays at `level` (a logarithm) or above, of every i.
Quartiles backward_horizon(std::span<const double> c, double level, GateScratch& scratch) {
  std::int64_t cut_off = 0;
  scratch.values.resize(c.size());
  for (std::size_t row = 0; row < c.size(); ++row) {
    const std::size_t key = scratch.oldest[row];
    const auto kept = static_cast<std::int64_t>(row - key);
    cut_off += key == 0 ? 1 : 0;
    scratch.values[row] =
        key == 0 ? static_cast<double>(kept) : crossing(kept, c[row] - c[key], c[row] - c[key - 1], level);
  }
  return quartiles(scratch, cut_off);
}

/// How far ahead F(i, j) stays at `level` or above, of every j.
Quartiles forward_survival(std::span<const double> c, double level, GateScratch& scratch) {
  std::int64_t cut_off = 0;
  scratch.values.resize(c.size());
  for (std::size_t key = 0; key < c.size(); ++key) {
    const std::size_t beyond = scratch.beyond[key];
    const auto kept = static_cast<std::int64_t>(beyond - 1 - key);
    const bool never = beyond == c.size();
    cut_off += never ? 1 : 0;
    scratch.values[key] =
        never ? static_cast<double>(kept) : crossing(kept, c[beyond - 1] - c[key], c[beyond] - c[key], level);
  }
  return quartiles(scratch, cut_off);
}

/// @param log_gates  [L - 1] log f of the positions from 1 on
std::vector<ForgettingEvent> strongest_events(std::span<const double> log_gates, int count) {
  if (count <= 0) return {};
  std::vector<double> gates(log_gates.size());
  std::ranges::transform(log_gates, gates.begin(), [](double value) { return std::exp(value); });
  std::vector<std::int64_t> positions(gates.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::erase_if(positions, [&](std::int64_t position) { return gates[index_of(position)] >= 1.0; });
  const auto wanted = std::min(positions.size(), static_cast<std::size_t>(count));
  const auto stronger = [&](std::int64_t a, std::int64_t b) {
    const double gate_a = gates[index_of(a)];
    const double gate_b = gates[index_of(b)];
    return gate_a != gate_b ? gate_a < gate_b : a < b;
  };
  std::partial_sort(positions.begin(), positions.begin() + static_cast<std::ptrdiff_t>(wanted), positions.end(),
                    stronger);
  std::vector<ForgettingEvent> events;
  for (std::size_t n = 0; n < wanted; ++n) {
    events.push_back({positions[n] + 1, gates[index_of(positions[n])]});
  }
  return events;
}

/// Means, quantiles and events of f, but for f_0, which is in no F.
void gate_sizes(std::span<const double> c, int events, GateScratch& scratch, HeadStatistics& statistics) {
  statistics.mean_log_gate = mean_log_gate(c);
  statistics.rate_decay_time = decay_time(statistics.mean_log_gate);
  if (c.size() < 2) {
    std::ranges::fill(statistics.gate_quantile, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  std::vector<double>& log_gates = scratch.values;
  log_gates.resize(c.size() - 1);
  for (std::size_t t = 1; t < c.size(); ++t) log_gates[t - 1] = c[t] - c[t - 1];
  statistics.strongest_events = strongest_events(log_gates, events);
  std::ranges::copy(quantiles(scratch, kGateShares, exponential_of), statistics.gate_quantile);
}

}  // namespace

void ask_for_order(kernels::GateSums& sums) {
  const auto length = static_cast<std::size_t>(sums.length);
  for (std::size_t n = 0; n < std::size(kHorizonLevel); ++n) sums.level[n] = std::log(kHorizonLevel[n]);
  const auto ask = [](const auto& shares, std::size_t count, int& ranks, int* rank) {
    ranks = static_cast<int>(shares.size());
    for (std::size_t n = 0; n < shares.size(); ++n) rank[n] = static_cast<int>(QuantilePlace(shares[n], count).rank);
  };
  ask(kGateShares, length - 1, sums.ranks[0], sums.rank[0]);
  ask(kQuarters, length, sums.ranks[1], sums.rank[1]);
}

void set_gate_statistics(const kernels::GateOfHead& gate, std::span<const double> c, HeadStatistics& statistics) {
  statistics.mean_log_gate =
      gate.cut == 0 ? (c.back() - c.front()) / static_cast<double>(c.size() - 1) : mean_log_gate(c);
  statistics.rate_decay_time = decay_time(statistics.mean_log_gate);
  for (std::size_t n = 0; n < kGateShares.size(); ++n) {
    statistics.gate_quantile[n] =
        QuantilePlace(kGateShares[n], c.size() - 1).between(gate.low[0][n], gate.high[0][n], exponential_of);
  }
  for (std::size_t list = 1; list < kernels::GateOfHead::kLists; ++list) {
    std::array<double, kQuarters.size()> at{};
    for (std::size_t n = 0; n < at.size(); ++n) {
      at[n] = QuantilePlace(kQuarters[n], c.size()).between(gate.low[list][n], gate.high[list][n], std::identity());
    }
    const double cut_off = static_cast<double>(gate.cut_off[list - 1]) / static_cast<double>(c.size());
    const std::size_t level = (list - 1) % kLevels;
    (list <= kLevels ? statistics.backward_horizon : statistics.forward_survival)[level] =
        Quartiles{at[0], at[1], at[2], cut_off};
  }
}

double quantile(std::span<const double> values, double p) {
  GateScratch scratch;
  scratch.values.assign(values.begin(), values.end());
  return quantiles(scratch, std::array{p}, std::identity()).front();
}

bool gate_statistics(std::span<const std::span<const double>> c, int events, const Job& job,
                     std::span<HeadStatistics> statistics) {
  const Job quiet{job.stop, {}, job.executor};
  Team team(quiet);
  // The gates, and horizons and survivals at every level.
  constexpr std::int64_t kGateTasks = 1 + kLevels;
  const std::int64_t tasks = std::ssize(c) * kGateTasks;
  return team.run({"measuring gates", "statistics", tasks}, tasks, [&](std::int64_t number, int /*thread*/) {
    const std::span<const double> sums = c[index_of(number / kGateTasks)];
    HeadStatistics& head = statistics[index_of(number / kGateTasks)];
    const std::int64_t task = number % kGateTasks;
    thread_local GateScratch scratch;
    // Quantiles put values in order, which NaN has none of.
    const bool known = std::ranges::none_of(sums, [](double value) { return std::isnan(value); });
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    constexpr Quartiles kNoQuartiles{kNone, kNone, kNone, kNone};
    if (task == 0 && known) {
      gate_sizes(sums, events, scratch, head);
    } else if (task == 0) {
      head.mean_log_gate = head.rate_decay_time = kNone;
      std::fill(std::begin(head.gate_quantile), std::end(head.gate_quantile), kNone);
    } else {
      const auto at = static_cast<std::size_t>(task - 1);
      head.backward_horizon[at] = head.forward_survival[at] = kNoQuartiles;
      if (!known) return;
      const double level = std::log(kHorizonLevel[at]);
      find_falls(sums, level, scratch);
      head.backward_horizon[at] = backward_horizon(sums, level, scratch);
      head.forward_survival[at] = forward_survival(sums, level, scratch);
    }
  });
}

}  // namespace foxscope
