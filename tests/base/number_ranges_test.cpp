#include "backend/base/number_ranges.h"

#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

TEST(NumberRanges, AreWhatFollowsOneAnother) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text(std::vector{4}), "4");
  EXPECT_EQ(ranges_text(std::vector{0, 1, 2, 4, 6, 7}), "0-2, 4, 6-7");
  EXPECT_EQ(ranges_text(std::vector{1, 3, 5}), "1, 3, 5");
}

}  // namespace
}  // namespace foxscope
