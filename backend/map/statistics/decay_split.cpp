#include "backend/map/statistics/decay_split.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "backend/base/index.h"
#include "backend/map/attention_pass.h"
#include "backend/map/head_entries.h"
#include "backend/map/maps_elsewhere.h"

namespace foxscope {
namespace {

/// log of the sum over j of F_ij, [L] nats: n_i = 1 + f_i n_(i-1), less what the window lets go. The sum is at least 1.
std::vector<float> decay_normalizer(std::span<const double> c, std::int64_t window) {
  std::vector<float> rows(c.size());
  double sum = 0;
  for (std::size_t row = 0; row < c.size(); ++row) {
    sum = row == 0 ? 1.0 : 1.0 + std::exp(c[row] - c[row - 1]) * sum;
    const auto width = static_cast<std::size_t>(window);
    if (window > 0 && row >= width) {
      sum -= std::exp(c[row] - c[row - width]);
      if (sum < 1.0) sum = 1.0;
    }
    rows[row] = static_cast<float>(std::log(sum));
  }
  return rows;
}

/// Mass by distance of a head that attends alike to the keys from `first_key` on that it sees: mean over the rows that
/// see any.
std::vector<double> uniform_mass(std::int64_t length, std::int64_t window, std::int64_t first_key) {
  std::vector<double> mass(static_cast<std::size_t>(length));
  const std::int64_t reach = window == 0 ? length : std::min(window, length);
  const auto rows = static_cast<double>(length - first_key);
  double each = 0;  // sum of 1 / (number of keys) over the rows that see this far
  for (std::int64_t distance = length - 1 - first_key; distance >= 0; --distance) {
    each += 1.0 / static_cast<double>(std::min(distance + 1, reach));
    if (distance < reach) mass[index_of(distance)] = each / rows;
  }
  return mass;
}

double reaching(const std::vector<double>& mass, double share) {
  double total = 0;
  for (std::size_t distance = 0; distance < mass.size(); ++distance) {
    if ((total += mass[distance]) >= share) return static_cast<double>(distance);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

DistanceProfile uniform_profile(std::int64_t length, std::int64_t window, std::int64_t first_key) {
  DistanceProfile profile{uniform_mass(length, window, first_key), 0, 0};
  profile.d50 = reaching(profile.mass, 0.5);
  profile.d90 = reaching(profile.mass, 0.9);
  return profile;
}

AttentionSpread uniform_spread(std::int64_t length, std::int64_t window) {
  AttentionSpread spread;
  const std::int64_t reach = window == 0 ? length : std::min(window, length);
  for (std::int64_t row = 0; row < length; ++row) {
    const auto keys = static_cast<double>(std::min(row + 1, reach));
    spread.entropy += std::log(keys) / static_cast<double>(length);
    if (row < reach) spread.mass_on_first += 1.0 / keys / static_cast<double>(length);
  }
  spread.distance = uniform_profile(length, window, 0);
  spread.distance_without_first = uniform_profile(length, window, 1);
  spread.mass_on_self = spread.distance.mass.front();
  return spread;
}

double mean_log_distance(const DistanceProfile& profile) {
  double sum = 0;
  double mass = 0;
  for (std::size_t distance = 0; distance < profile.mass.size(); ++distance) {
    sum += profile.mass[distance] * std::log2(1.0 + static_cast<double>(distance));
    mass += profile.mass[distance];
  }
  return sum / mass;
}

/// Mean of the differences of two rows of log-normalisers.
double mean_difference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t row = 0; row < a.size(); ++row) sum += static_cast<double>(a[row]) - static_cast<double>(b[row]);
  return sum / static_cast<double>(a.size());
}

}  // namespace

std::optional<DecaySplit> decay_split(const HeadOf& head, const AttentionSpread& spread, const Job& job) {
  if (const auto* const there = elsewhere(head)) return there->split(head, job);
  const TraceInfo& info = head.trace->info();
  DecaySplit split;
  const std::int64_t window = window_of(info, head.layer);
  const AttentionSpread uniform = uniform_spread(info.length, window);
  auto logits = logit_profile(head, job);
  if (!logits) return std::nullopt;
  split.logits = std::move(*logits);
  if (forgets(info, head.layer)) {
    const std::span<const float> rows = log_normalizer_without_gate(head, job);
    if (rows.empty()) return std::nullopt;
    HeadEntries content(head, Quantity::attention, {});
    split.divergence = spread.mean_log_decay + mean_difference(rows, content.normalizer);
    if (split.divergence < 0) split.divergence = 0;  // by rounding
    content.leave_out_gate(rows);
    auto without_gate = attention_spread(content, job);
    if (!without_gate) return std::nullopt;
    split.without_gate = std::move(*without_gate);
    HeadEntries decay(head, Quantity::attention, {});
    const std::vector<float> decay_rows = decay_normalizer(decay.gate, window);
    decay.leave_out_content(decay_rows);
    auto without_content = attention_spread(decay, job);
    if (!without_content) return std::nullopt;
    split.without_content = std::move(*without_content);
  } else {
    split.without_gate = spread;
    split.without_content = uniform;
  }
  const auto locality = [&](DistanceProfile AttentionSpread::*profile) {
    return Locality{mean_log_distance(uniform.*profile), mean_log_distance(split.without_content.*profile),
                    mean_log_distance(split.without_gate.*profile), mean_log_distance(spread.*profile)};
  };
  split.locality = locality(&AttentionSpread::distance);
  split.locality_without_first = locality(&AttentionSpread::distance_without_first);
  return split;
}

}  // namespace foxscope
