#include "backend/base/line_pace.h"

#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

using namespace std::chrono_literals;

TEST(LinePace, BeginsLateAndIsNeverFast) {
  LinePace pace;
  const LinePace::Clock::time_point start{5h};
  std::vector<double> lines;
  for (auto at = 0ms; at <= 100s; at += 100ms) {
    if (pace.due(start + at)) lines.push_back(std::chrono::duration<double>(at).count());
  }
  EXPECT_EQ(lines, (std::vector<double>{10, 40, 70, 100}));
}

TEST(LinePace, WorkThatReportsSeldomWritesAtOnceWhenALineIsDue) {
  LinePace pace;
  const LinePace::Clock::time_point start{5h};
  EXPECT_FALSE(pace.due(start));
  EXPECT_TRUE(pace.due(start + 47s));
  EXPECT_FALSE(pace.due(start + 76s));
  EXPECT_TRUE(pace.due(start + 77s));
}

}  // namespace
}  // namespace foxscope
