#include "backend/map/head_match.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace foxscope {
namespace {

constexpr double kStepsPerOctave = 4;

// Distances at which a sketch knows the cumulative mass: all up to this one are counted.
double edge(int step) { return step == 0 ? 0.0 : std::exp2((step - 1) / kStepsPerOctave); }

/// Octaves from each of a sketch's distances to the next; a window asks for thousands of distances in a moment.
const std::array<double, ProfileSketch::kSteps - 1>& octaves() {
  static const auto widths = [] {
    std::array<double, ProfileSketch::kSteps - 1> result{};
    for (int step = 0; step + 1 < ProfileSketch::kSteps; ++step) {
      result[static_cast<std::size_t>(step)] =
          std::log2((1 + std::floor(edge(step + 1))) / (1 + std::floor(edge(step))));
    }
    return result;
  }();
  return widths;
}

}  // namespace

ProfileSketch sketch(const DistanceProfile& profile) {
  ProfileSketch result;
  double sum = 0;
  std::size_t distance = 0;
  for (int step = 0; step < ProfileSketch::kSteps; ++step) {
    const auto end = static_cast<std::size_t>(std::floor(edge(step))) + 1;
    for (; distance < std::min(end, profile.mass.size()); ++distance) sum += profile.mass[distance];
    result.cumulative_mass[static_cast<std::size_t>(step)] = sum;
  }
  return result;
}

double octaves_apart(const ProfileSketch& a, const ProfileSketch& b) {
  // Whole distances: the mass is constant from one to the next, so the earlier value holds over the step.
  const auto& width = octaves();
  double area = 0;
  for (std::size_t step = 0; step < width.size(); ++step) {
    area += width[step] * std::abs(a.cumulative_mass[step] - b.cumulative_mass[step]);
  }
  return area;
}

}  // namespace foxscope
