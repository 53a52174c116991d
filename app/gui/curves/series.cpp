#include "app/gui/curves/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope::gui::curves {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The least and the largest of the values [begin, end), earlier one first.
void appendExtremes(const Series& series, std::size_t begin, std::size_t end, std::vector<Point>& points) {
  std::size_t least = end;
  std::size_t largest = end;
  for (std::size_t index = begin; index < end; ++index) {
    const double value = series.value[index];
    if (std::isnan(value)) continue;
    if (least == end || value < series.value[least]) least = index;
    if (largest == end || value > series.value[largest]) largest = index;
  }
  if (least == end) {
    points.push_back({series.positionAt(begin), kNone});
    return;
  }
  const auto [first, second] = std::minmax(least, largest);
  points.push_back({series.positionAt(first), series.value[first]});
  if (second != first) points.push_back({series.positionAt(second), series.value[second]});
}

}  // namespace

double Series::positionAt(std::size_t index) const {
  return position.empty() ? static_cast<double>(index) : position[index];
}

std::size_t Series::firstFrom(double place) const {
  if (!position.empty()) {
    return static_cast<std::size_t>(std::lower_bound(position.begin(), position.end(), place) - position.begin());
  }
  return static_cast<std::size_t>(std::clamp(std::ceil(place), 0.0, static_cast<double>(value.size())));
}

std::optional<std::size_t> Series::indexAt(double place) const {
  if (value.empty() || place < positionAt(0)) return std::nullopt;
  if (position.empty()) {
    if (place >= static_cast<double>(value.size())) return std::nullopt;
    return static_cast<std::size_t>(place);
  }
  if (place >= position.back() + 1) return std::nullopt;
  return static_cast<std::size_t>(std::upper_bound(position.begin(), position.end(), place) - position.begin()) - 1;
}

std::vector<double> smoothed(std::span<const double> values, int window) {
  const std::size_t size = values.size();
  std::vector<double> sum(size + 1);
  std::vector<std::size_t> count(size + 1);
  for (std::size_t index = 0; index < size; ++index) {
    const bool counts = !std::isnan(values[index]);
    sum[index + 1] = sum[index] + (counts ? values[index] : 0.0);
    count[index + 1] = count[index] + (counts ? 1 : 0);
  }
  const auto before = static_cast<std::size_t>((window - 1) / 2);
  const auto after = static_cast<std::size_t>(window / 2);
  std::vector<double> means(size, kNone);
  for (std::size_t index = 0; index < size; ++index) {
    const std::size_t begin = index - std::min(index, before);
    const std::size_t end = std::min(size, index + after + 1);
    const std::size_t numbers = count[end] - count[begin];
    if (numbers > 0) means[index] = (sum[end] - sum[begin]) / static_cast<double>(numbers);
  }
  return means;
}

std::vector<double> meansSoFar(std::span<const double> values) {
  std::vector<double> means(values.size(), kNone);
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (!std::isnan(values[index])) {
      sum += values[index];
      ++count;
    }
    if (count > 0) means[index] = sum / static_cast<double>(count);
  }
  return means;
}

std::vector<Point> decimated(const Series& series, std::span<const double> edges) {
  std::vector<Point> points;
  if (edges.size() < 2) return points;
  points.reserve(2 * edges.size());
  std::size_t begin = series.firstFrom(edges[0]);
  for (std::size_t column = 1; column < edges.size(); ++column) {
    const std::size_t end = series.firstFrom(edges[column]);
    if (end - begin > 2) {
      appendExtremes(series, begin, end, points);
    } else {
      for (std::size_t index = begin; index < end; ++index)
        points.push_back({series.positionAt(index), series.value[index]});
    }
    begin = end;
  }
  return points;
}

}  // namespace foxscope::gui::curves
