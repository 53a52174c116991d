#include "backend/map/statistics/gate_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/base/index.h"
#include "backend/map/team.h"
#include "backend/trace/decay_time.h"

namespace foxscope {
namespace {

constexpr std::int64_t kLevels = std::size(kHorizonLevel);

/// Values by position, and how many of them an end of the text cut off.
struct Lengths {
  std::vector<double> tokens;
  std::int64_t cut_off = 0;

  Quartiles quartiles() {
    Quartiles result;
    result.lower = quantile(tokens, 0.25);
    result.median = quantile(tokens, 0.5);
    result.upper = quantile(tokens, 0.75);
    result.cut_off_share = static_cast<double>(cut_off) / static_cast<double>(tokens.size());
    return result;
  }
};

/// Where between `kept` tokens, with log F `inside`, and one more, with log F `beyond`, log F is `level`.
double crossing(std::int64_t kept, double inside, double beyond, double level) {
  return static_cast<double>(kept) + (inside - level) / (inside - beyond);
}

/// How far back F(i, j) stays at `level` (a logarithm) or above, of every i.
Lengths backward_horizons(std::span<const double> c, double level) {
  Lengths result;
  result.tokens.resize(c.size());
  // c falls, so the oldest key within the level only moves forward.
  std::size_t key = 0;
  for (std::size_t row = 0; row < c.size(); ++row) {
    while (c[row] - c[key] < level) ++key;
    const auto kept = static_cast<std::int64_t>(row - key);
    if (key == 0) {
      result.tokens[row] = static_cast<double>(kept);
      ++result.cut_off;
    } else {
      result.tokens[row] = crossing(kept, c[row] - c[key], c[row] - c[key - 1], level);
    }
  }
  return result;
}

/// How far ahead F(i, j) stays at `level` or above, of every j.
Lengths forward_survivals(std::span<const double> c, double level) {
  Lengths result;
  result.tokens.resize(c.size());
  std::size_t row = 0;
  for (std::size_t key = 0; key < c.size(); ++key) {
    row = std::max(row, key);
    while (row + 1 < c.size() && c[row + 1] - c[key] >= level) ++row;
    const auto kept = static_cast<std::int64_t>(row - key);
    if (row + 1 == c.size()) {
      result.tokens[key] = static_cast<double>(kept);
      ++result.cut_off;
    } else {
      result.tokens[key] = crossing(kept, c[row] - c[key], c[row + 1] - c[key], level);
    }
  }
  return result;
}

/// @param gates  [L - 1] f of the positions from 1 on
std::vector<ForgettingEvent> strongest_events(std::span<const double> gates, int count) {
  std::vector<std::int64_t> positions(gates.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::erase_if(positions, [&](std::int64_t position) { return gates[index_of(position)] >= 1.0; });
  const auto wanted = std::min(positions.size(), static_cast<std::size_t>(std::max(0, count)));
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
void gate_sizes(std::span<const double> c, int events, HeadStatistics& statistics) {
  statistics.mean_log_gate = mean_log_gate(c);
  statistics.rate_decay_time = decay_time(statistics.mean_log_gate);
  if (c.size() < 2) {
    std::ranges::fill(statistics.gate_quantile, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  std::vector<double> gates(c.size() - 1);
  for (std::size_t t = 1; t < c.size(); ++t) gates[t - 1] = std::exp(c[t] - c[t - 1]);
  statistics.strongest_events = strongest_events(gates, events);
  for (int n = 0; n < 5; ++n) statistics.gate_quantile[n] = quantile(gates, 0.25 * n);
}

}  // namespace

double quantile(std::span<double> values, double p) {
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[index_of(below)];
  const double share = place - static_cast<double>(below);
  if (share == 0.0) return low;
  const double high = *std::min_element(values.begin() + below + 1, values.end());
  return low + share * (high - low);
}

bool gate_statistics(std::span<const std::span<const double>> c, int events, const Job& job,
                     std::span<HeadStatistics> statistics) {
  const Job quiet{job.stop, {}, job.executor};
  Team team(quiet);
  // The gates, and the horizon and the survival at every level.
  constexpr std::int64_t kGateTasks = 1 + 2 * kLevels;
  const std::int64_t tasks = std::ssize(c) * kGateTasks;
  return team.run({"measuring gates", "statistics", tasks}, tasks, [&](std::int64_t number, int /*thread*/) {
    const std::span<const double> sums = c[index_of(number / kGateTasks)];
    HeadStatistics& head = statistics[index_of(number / kGateTasks)];
    const std::int64_t task = number % kGateTasks;
    const auto level = static_cast<std::size_t>(task - 1) % kLevels;
    // Quantiles put values in order, which NaN has none of.
    const bool known = std::ranges::none_of(sums, [](double value) { return std::isnan(value); });
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    constexpr Quartiles kNoQuartiles{kNone, kNone, kNone, kNone};
    if (task == 0 && known) {
      gate_sizes(sums, events, head);
    } else if (task == 0) {
      head.mean_log_gate = head.rate_decay_time = kNone;
      std::fill(std::begin(head.gate_quantile), std::end(head.gate_quantile), kNone);
    } else if (task <= kLevels) {
      head.backward_horizon[level] =
          known ? backward_horizons(sums, std::log(kHorizonLevel[level])).quartiles() : kNoQuartiles;
    } else {
      head.forward_survival[level] =
          known ? forward_survivals(sums, std::log(kHorizonLevel[level])).quartiles() : kNoQuartiles;
    }
  });
}

}  // namespace foxscope
