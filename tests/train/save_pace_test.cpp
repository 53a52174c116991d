// When a training is saved by the clock.
#include "backend/train/save_pace.h"

#include <gtest/gtest.h>

namespace foxscope {
namespace {

using Seconds = SavePace::Seconds;

SavePace::Clock::time_point at_second(double seconds) {
  return SavePace::Clock::time_point() + std::chrono::duration_cast<SavePace::Clock::duration>(Seconds(seconds));
}

TEST(SavePace, ACheckpointTakesTwoPercent) {
  SavePace pace(0, at_second(100));
  pace.saved(at_second(200), Seconds(4));
  EXPECT_FALSE(pace.due(at_second(399.9)));
  EXPECT_TRUE(pace.due(at_second(400.1)));
}

TEST(SavePace, NotMoreOftenThanOnceAMinuteAndAtLeastEveryTen) {
  SavePace pace(0, at_second(0));
  for (const double taken : {1e-6, 0.1, 1.2, 2.0, 11.0, 12.0, 600.0, 1e5}) {
    pace.saved(at_second(0), Seconds(taken));
    EXPECT_EQ(pace.due(at_second(59.9)), false) << taken;
    EXPECT_EQ(pace.due(at_second(60.1)), taken < 1.201) << taken;
    EXPECT_EQ(pace.due(at_second(600.1)), true) << taken;
  }
}

TEST(SavePace, TheFirstOneWaitsForWhatItWillTake) {
  EXPECT_TRUE(SavePace(1 << 20, at_second(0)).due(at_second(61)));
  const SavePace large(std::int64_t{9} << 30, at_second(0));  // 760 million parameters
  EXPECT_FALSE(large.due(at_second(599)));
  EXPECT_TRUE(large.due(at_second(601)));
}

}  // namespace
}  // namespace foxscope
