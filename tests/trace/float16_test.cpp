// float16 against its definition: every pattern, and the nearest of two neighbours.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backend/trace/dtype.h"

namespace foxscope {
namespace {

constexpr std::uint16_t kInfiniteBits = 0x7c00;

/// Sign, exponent with bias 15, mantissa of 10 bits with a 1 before it, but for the smallest numbers.
double by_definition(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

TEST(Float16, EveryNumberComesBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = from_float16(pattern);
    if ((pattern & 0x7fff) > kInfiniteBits) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(from_float16(to_float16(value))));
      continue;
    }
    if ((pattern & 0x7fff) < kInfiniteBits) {
      ASSERT_EQ(static_cast<double>(value), by_definition(pattern)) << bits;
    } else {
      ASSERT_TRUE(std::isinf(value));
    }
    ASSERT_EQ(to_float16(value), pattern);
  }
}

TEST(Float16, IsTheNearestOfItsNeighbours) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-26, 15);
  for (int n = 0; n < 200'000; ++n) {
    const float value = std::ldexp(mantissa(random), exponent(random));
    const std::uint16_t bits = to_float16(value);
    if (bits == kInfiniteBits) {
      ASSERT_GE(value, 65520.0F);
      continue;
    }
    const double error = std::abs(by_definition(bits) - static_cast<double>(value));
    const double above = std::abs(by_definition(static_cast<std::uint16_t>(bits + 1)) - static_cast<double>(value));
    ASSERT_LE(error, above) << value;
    if (bits > 0) {
      ASSERT_LE(error, std::abs(by_definition(static_cast<std::uint16_t>(bits - 1)) - static_cast<double>(value)));
    }
  }
}

TEST(Float16, TiesGoToTheEvenOne) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const auto middle =
        static_cast<float>((by_definition(bits) + by_definition(static_cast<std::uint16_t>(bits + 1))) / 2);
    ASSERT_EQ(to_float16(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(to_float16(-middle), (bits + (bits & 1)) | 0x8000) << bits;
  }
  EXPECT_EQ(to_float16(65519.996F), 0x7bff);
  EXPECT_EQ(to_float16(65520.0F), kInfiniteBits);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::infinity()), kInfiniteBits | 0x8000);
}

}  // namespace
}  // namespace foxscope
