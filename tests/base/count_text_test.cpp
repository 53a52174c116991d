#include "backend/base/count_text.h"

#include <limits>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

TEST(CountText, ThousandsAreGrouped) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
}

TEST(TokensText, HasNoExponent) {
  EXPECT_EQ(tokens_text(0.4983), "0.498");
  EXPECT_EQ(tokens_text(51.52), "51.5");
  EXPECT_EQ(tokens_text(999.4), "999");
  EXPECT_EQ(tokens_text(999.6), "1,000");
  EXPECT_EQ(tokens_text(1589.2), "1,589");
  EXPECT_EQ(tokens_text(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace foxscope
