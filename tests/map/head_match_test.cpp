#include "backend/map/statistics/head_match.h"

#include <cmath>

#include <gtest/gtest.h>

namespace foxscope::test {
namespace {

// All mass at one distance.
ProfileSketch spike(std::size_t distance) {
  DistanceProfile profile;
  profile.mass.assign(distance + 1, 0.0);
  profile.mass[distance] = 1.0;
  return sketch(profile);
}

TEST(HeadMatch, EqualProfilesAreZeroApart) { EXPECT_EQ(octaves_apart(spike(37), spike(37)), 0.0); }

TEST(HeadMatch, SpikesAreAsFarApartAsTheirDistancesInOctaves) {
  for (const std::size_t near : {0, 1, 5, 60, 77}) {
    for (const std::size_t far : {78, 100, 5000, 60000}) {
      const double octaves = std::log2(static_cast<double>(1 + far)) - std::log2(static_cast<double>(1 + near));
      EXPECT_NEAR(octaves_apart(spike(near), spike(far)), octaves, 1e-9) << near << " and " << far;
      EXPECT_EQ(octaves_apart(spike(near), spike(far)), octaves_apart(spike(far), spike(near)));
    }
  }
}

/// The earth mover's distance over log2(1 + distance), from every distance.
double moved(const DistanceProfile& a, const DistanceProfile& b) {
  double sum_a = 0, sum_b = 0, area = 0;
  for (std::size_t distance = 0; distance < a.mass.size(); ++distance) {
    sum_a += a.mass[distance];
    sum_b += b.mass[distance];
    area += std::abs(sum_a - sum_b) *
            std::log2((2.0 + static_cast<double>(distance)) / (1.0 + static_cast<double>(distance)));
  }
  return area;
}

TEST(HeadMatch, IsTheEarthMoversDistance) {
  const auto falling = [](double reach) {
    DistanceProfile profile;
    double sum = 0;
    for (int n = 0; n < 3000; ++n) profile.mass.push_back(std::exp(-n / reach));
    for (const double mass : profile.mass) sum += mass;
    for (double& mass : profile.mass) mass /= sum;
    return profile;
  };
  for (const double reach : {1.5, 20.0, 600.0}) {
    const DistanceProfile near = falling(reach), far = falling(2.5 * reach);
    EXPECT_NEAR(octaves_apart(sketch(near), sketch(far)), moved(near, far), 1e-9);
  }
}

TEST(HeadMatch, MassThatIsSharedIsNotMoved) {
  DistanceProfile half;
  half.mass.assign(1001, 0.0);
  half.mass[3] = 0.5;
  half.mass[1000] = 0.5;
  EXPECT_NEAR(octaves_apart(sketch(half), spike(3)), 0.5 * octaves_apart(spike(1000), spike(3)), 1e-12);
}

}  // namespace
}  // namespace foxscope::test
