#include "backend/map/head_match.h"

#include <algorithm>
#include <cmath>

namespace foxscope {
namespace {

constexpr double kStepsPerOctave = 4;

// Distances at which a sketch knows the cumulative mass: all up to this one are counted.
double edge(int step) { return step == 0 ? 0.0 : std::exp2((step - 1) / kStepsPerOctave); }

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
  double area = 0;
  for (int step = 0; step + 1 < ProfileSketch::kSteps; ++step) {
    const auto index = static_cast<std::size_t>(step);
    // Whole distances: the mass is constant from one to the next, so the earlier value holds over the step.
    const double width = std::log2((1 + std::floor(edge(step + 1))) / (1 + std::floor(edge(step))));
    area += width * std::abs(a.cumulative_mass[index] - b.cumulative_mass[index]);
  }
  return area;
}

}  // namespace foxscope
