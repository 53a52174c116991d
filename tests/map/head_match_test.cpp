#include "backend/map/head_match.h"

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
  // A sketch places a spike at the next of its steps, at most a quarter of an octave further.
  for (const std::size_t near : {0, 1, 5, 60}) {
    for (const std::size_t far : {100, 5000, 60000}) {
      const double octaves = std::log2(static_cast<double>(1 + far)) - std::log2(static_cast<double>(1 + near));
      EXPECT_NEAR(octaves_apart(spike(near), spike(far)), octaves, 0.3) << near << " and " << far;
      EXPECT_EQ(octaves_apart(spike(near), spike(far)), octaves_apart(spike(far), spike(near)));
    }
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
