#include "app/gui/maps/value_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr std::size_t kSample = 1 << 15;
constexpr std::size_t kBins = 96;
constexpr double kShownDecades = 12;

/// The value of this rank; others are put below and above it.
double percentile(std::vector<float>& sample, double share) {
  const auto rank = std::lround(share * static_cast<double>(sample.size() - 1));
  const auto place = sample.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample.begin(), place, sample.end());
  return *place;
}

/// Finite values only. Several running extremes, so that one comparison does not wait for the one before.
void extend(const std::vector<float>& values, double& lowest, double& highest) {
  constexpr std::size_t kChains = 8;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, kChains> low{};
  std::array<float, kChains> high{};
  low.fill(kInfinity);
  high.fill(-kInfinity);
  const auto add = [&](float value, std::size_t chain) {
    // Comparisons with NaN are false.
    low[chain] = value < low[chain] && value > -kInfinity ? value : low[chain];
    high[chain] = value > high[chain] && value < kInfinity ? value : high[chain];
  };
  std::size_t n = 0;
  for (; n + kChains <= values.size(); n += kChains) {
    for (std::size_t chain = 0; chain < kChains; ++chain) add(values[n + chain], chain);
  }
  for (; n < values.size(); ++n) add(values[n], 0);
  lowest = std::min<double>(lowest, *std::min_element(low.begin(), low.end()));
  highest = std::max<double>(highest, *std::max_element(high.begin(), high.end()));
}

void count(Histogram& histogram, double value) {
  const double width = histogram.upper - histogram.lower;
  const double place = width > 0 ? (value - histogram.lower) / width * kBins : 0;
  ++histogram.counts[index_of(std::clamp<double>(place, 0, kBins - 1))];
}

}  // namespace

ValueSummary summaryOf(const std::vector<std::shared_ptr<const Image>>& images) {
  ValueSummary summary;
  summary.lowest = std::numeric_limits<double>::infinity();
  summary.highest = -summary.lowest;
  std::size_t total = 0;
  for (const auto& image : images) total += image->value.size();
  const std::size_t stride = std::max<std::size_t>(1, total / kSample);
  std::vector<float> sample;
  sample.reserve(total / stride);
  std::size_t next = stride - 1;
  for (const auto& image : images) {
    const std::vector<float>& values = image->value;
    extend(values, summary.lowest, summary.highest);
    for (; next < values.size(); next += stride) {
      if (std::isfinite(values[next])) sample.push_back(values[next]);
    }
    next -= values.size();
  }
  if (summary.lowest > summary.highest) return {};
  summary.empty = false;
  if (sample.empty()) sample = {static_cast<float>(summary.lowest), static_cast<float>(summary.highest)};
  summary.percentile0_1 = percentile(sample, 0.001);
  summary.percentile99_9 = percentile(sample, 0.999);

  summary.linear = {summary.lowest, summary.highest, std::vector<int>(kBins)};
  float least = std::numeric_limits<float>::infinity();
  for (const float value : sample) {
    count(summary.linear, value);
    if (value > 0) least = std::min(least, value);
  }
  if (!std::isfinite(least)) return summary;
  const double top = std::log10(summary.highest);
  summary.logarithmic = {std::max<double>(std::log10(least), top - kShownDecades), top, std::vector<int>(kBins)};
  for (const float value : sample) {
    const double logarithm = value > 0 ? std::log10(value) : -std::numeric_limits<double>::infinity();
    if (logarithm >= summary.logarithmic.lower) count(summary.logarithmic, logarithm);
  }
  return summary;
}

}  // namespace foxscope::gui
