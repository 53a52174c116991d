#include "backend/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {

namespace {

/// Sets the weights of all but the fewest likeliest that reach a share of their sum to 0.
void keep_nucleus(std::vector<double>& weights, double share) {
  std::vector<std::int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t id) { return weights[index_of(id)]; });
  const double enough = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (const std::int32_t id : order) {
    double& weight = weights[index_of(id)];
    if (sum >= enough) weight = 0;
    sum += weight;
  }
}

}  // namespace

Sampler::Sampler(const Sampling& sampling)
    : temperature_(sampling.temperature), top_p_(sampling.top_p), generator_(sampling.seed) {
  if (!std::isfinite(temperature_) || temperature_ < 0) {
    throw UsageError(
        fmt::format("--temperature {}: use 0 (the likeliest token) or a number above it", sampling.temperature));
  }
  if (!(top_p_ > 0) || top_p_ > 1) throw UsageError(fmt::format("top_p {}: use a share above 0, at most 1", top_p_));
}

std::int32_t Sampler::choose(const NextToken& next) {
  const std::int32_t best = next.likeliest();
  if (temperature_ == 0) return best;
  const std::span<const float> log_probabilities = next.log_probabilities();
  const double largest = log_probabilities[index_of(best)];
  std::vector<double> sums;
  sums.reserve(log_probabilities.size());
  for (const float value : log_probabilities) {
    sums.push_back(std::exp((static_cast<double>(value) - largest) / temperature_));
  }
  if (top_p_ < 1) keep_nucleus(sums, top_p_);
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  const double sum = sums.back();
  const double drawn = static_cast<double>(generator_() >> 11U) * 0x1p-53 * sum;
  const auto passed = std::upper_bound(sums.begin(), sums.end(), drawn);
  return passed == sums.end() ? best : static_cast<std::int32_t>(passed - sums.begin());
}

}  // namespace foxscope
