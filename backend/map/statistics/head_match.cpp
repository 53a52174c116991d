#include "backend/map/statistics/head_match.h"

#include <algorithm>
#include <cmath>

#include "backend/base/index.h"

namespace foxscope {
namespace {

constexpr double kStepsPerOctave = 4;

/// The whole distance at which a step begins.
std::size_t edge(int step) {
  return step == 0 ? 0 : static_cast<std::size_t>(std::floor(std::exp2((step - 1) / kStepsPerOctave)));
}

double octaves(std::size_t distance) { return std::log2(1.0 + static_cast<double>(distance)); }

}  // namespace

ProfileSketch sketch(const DistanceProfile& profile) {
  ProfileSketch result;
  double sum = 0;
  for (int step = 0; step < ProfileSketch::kSteps; ++step) {
    double& area = result.area[index_of(step)];
    const std::size_t end = edge(step + 1);
    std::size_t distance = edge(step);
    double here = octaves(distance);
    // The mass of a distance counts from there on.
    while (distance < std::min(end, profile.mass.size())) {
      sum += profile.mass[distance++];
      const double next = octaves(distance);
      area += sum * (next - here);
      here = next;
    }
    area += sum * (octaves(end) - here);
  }
  return result;
}

double octaves_apart(const ProfileSketch& a, const ProfileSketch& b) {
  double area = 0;
  for (std::size_t step = 0; step < a.area.size(); ++step) area += std::abs(a.area[step] - b.area[step]);
  return area;
}

}  // namespace foxscope
