#include "backend/map/distance_axis.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/statistics/gate_mean.h"
#include "backend/trace/decay_time.h"

namespace foxscope {

const char* to_string(MapAxes axes) { return axes == MapAxes::key ? "key" : "distance"; }

MapAxes axes_from_string(const std::string& name) {
  for (const MapAxes axes : {MapAxes::key, MapAxes::distance}) {
    if (name == to_string(axes)) return axes;
  }
  throw UsageError(fmt::format("axes '{}' are not known: choose from key, distance", name));
}

double decay_time_of(const HeadOf& head) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (!forgets(head.trace->info(), head.layer) || head.trace->info().length < 2) return kNever;
  try {
    // From another machine the means of all heads came when the run was opened: the window's thread does not wait.
    return decay_time(mean_log_gate(*head.trace, head.layer, head.head));
  } catch (const Error&) {
    return kNever;  // the run kept no gates
  }
}

MapAxes default_axes(Quantity quantity, const HeadOf& head, std::int64_t tokens) {
  if (quantity != Quantity::forget && quantity != Quantity::attention && quantity != Quantity::mixing) {
    return MapAxes::key;
  }
  const auto window = static_cast<double>(window_of(head.trace->info(), head.layer));
  const double memory = window > 0 ? std::min(window, decay_time_of(head)) : decay_time_of(head);
  return memory < kThinShare * static_cast<double>(tokens) ? MapAxes::distance : MapAxes::key;
}

double DistanceAxis::place(double distance) const {
  const auto begin = static_cast<double>(distances.begin);
  return std::log(distance / begin) / std::log(static_cast<double>(distances.end) / begin);
}

double DistanceAxis::middle(double distance) const { return place(std::sqrt(distance * (distance + 1))); }

std::int64_t DistanceAxis::at(double place) const {
  const auto begin = static_cast<double>(distances.begin);
  const double distance = begin * std::pow(static_cast<double>(distances.end) / begin, std::clamp(place, 0.0, 1.0));
  return std::clamp(static_cast<std::int64_t>(std::floor(distance)), distances.begin, distances.end - 1);
}

std::int64_t DistanceAxis::edge(std::int64_t pixel) const {
  assert(pixel >= 0 && pixel <= pixels && distances.begin >= 1 && distances.size() >= 1);
  if (pixel == 0) return distances.begin;
  return pixel == pixels ? distances.end : at(static_cast<double>(pixel) / static_cast<double>(pixels));
}

std::vector<std::int64_t> DistanceAxis::edges() const {
  std::vector<std::int64_t> edges;
  for (std::int64_t pixel = 0; pixel <= pixels; ++pixel) edges.push_back(edge(pixel));
  return edges;
}

std::vector<std::int64_t> single_distances(const Range& distances) {
  std::vector<std::int64_t> edges(static_cast<std::size_t>(distances.size()) + 1);
  std::iota(edges.begin(), edges.end(), distances.begin);
  return edges;
}

std::vector<std::int64_t> distinct(std::vector<std::int64_t> edges) {
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

Image transposed(const Image& image) {
  constexpr std::int64_t kBlock = 16;
  Image turned{image.columns, image.rows, std::vector<float>(image.value.size())};
  for (std::int64_t row = 0; row < image.rows; row += kBlock) {
    const std::int64_t end = std::min(row + kBlock, image.rows);
    for (std::int64_t column = 0; column < image.columns; ++column) {
      for (std::int64_t n = row; n < end; ++n) {
        turned.value[index_of(column * image.rows + n)] = image.value[index_of(n * image.columns + column)];
      }
    }
  }
  return turned;
}

Image drawn_by_distance(const Image& image) {
  Image turned = transposed(image);
  for (std::int64_t row = 0; row < turned.rows / 2; ++row) {
    const auto line = [&](std::int64_t n) { return turned.value.begin() + n * turned.columns; };
    std::swap_ranges(line(row), line(row + 1), line(turned.rows - 1 - row));
  }
  return turned;
}

}  // namespace foxscope
