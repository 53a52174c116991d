#include "backend/eval/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

Sampler::Sampler(const Sampling& sampling) : temperature_(sampling.temperature), generator_(sampling.seed) {
  if (std::isfinite(temperature_) && temperature_ >= 0) return;
  throw UsageError(
      fmt::format("--temperature {}: use 0 (the likeliest token) or a number above it", sampling.temperature));
}

std::int32_t Sampler::choose(std::span<const float> log_probabilities) {
  const auto likeliest = std::max_element(log_probabilities.begin(), log_probabilities.end());
  const auto best = static_cast<std::int32_t>(likeliest - log_probabilities.begin());
  if (temperature_ == 0) return best;
  const double largest = *likeliest;
  std::vector<double> sums;
  sums.reserve(log_probabilities.size());
  double sum = 0;
  for (const float value : log_probabilities) {
    sum += std::exp((static_cast<double>(value) - largest) / temperature_);
    sums.push_back(sum);
  }
  const double drawn = static_cast<double>(generator_() >> 11U) * 0x1p-53 * sum;
  const auto passed = std::upper_bound(sums.begin(), sums.end(), drawn);
  return passed == sums.end() ? best : static_cast<std::int32_t>(passed - sums.begin());
}

}  // namespace foxscope
