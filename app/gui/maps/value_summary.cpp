#include "app/gui/maps/value_summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace foxscope::gui {
namespace {

constexpr std::size_t kSample = 1 << 15;
constexpr std::size_t kBins = 96;
constexpr double kShownDecades = 12;

double percentile(const std::vector<float>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

void count(Histogram& histogram, double value) {
  const double width = histogram.upper - histogram.lower;
  const double place = width > 0 ? (value - histogram.lower) / width * kBins : 0;
  ++histogram.counts[static_cast<std::size_t>(std::clamp<double>(place, 0, kBins - 1))];
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
  std::size_t n = 0;
  for (const auto& image : images) {
    for (const float value : image->value) {
      ++n;
      if (!std::isfinite(value)) continue;
      summary.lowest = std::min<double>(summary.lowest, value);
      summary.highest = std::max<double>(summary.highest, value);
      if (n % stride == 0) sample.push_back(value);
    }
  }
  if (summary.lowest > summary.highest) return {};
  summary.empty = false;
  if (sample.empty()) sample = {static_cast<float>(summary.lowest), static_cast<float>(summary.highest)};
  std::sort(sample.begin(), sample.end());
  summary.percentile0_1 = percentile(sample, 0.001);
  summary.percentile99_9 = percentile(sample, 0.999);

  summary.linear = {summary.lowest, summary.highest, std::vector<int>(kBins)};
  for (const float value : sample) count(summary.linear, value);
  const auto positive = std::upper_bound(sample.begin(), sample.end(), 0.0F);
  if (positive == sample.end()) return summary;
  const double top = std::log10(summary.highest);
  summary.logarithmic = {std::max<double>(std::log10(*positive), top - kShownDecades), top, std::vector<int>(kBins)};
  for (auto value = positive; value != sample.end(); ++value) {
    const double logarithm = std::log10(*value);
    if (logarithm >= summary.logarithmic.lower) count(summary.logarithmic, logarithm);
  }
  return summary;
}

}  // namespace foxscope::gui
