#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/tile_math_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

void exp2_of(const float* x, float* y, std::int64_t count) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t i = 0; i < count; i += lanes) hn::StoreU(exp2_vector(hn::LoadU(tag, x + i)), tag, y + i);
}

void product_of(int start, std::int64_t rows, std::int64_t columns, std::int64_t depth, const ProductTile& tile) {
  switch (static_cast<Start>(start)) {
    case Start::zero:
      return tile_product<Start::zero>(rows, columns, depth, tile.a, tile.a_stride, tile.b, tile.b_stride, nullptr,
                                       tile.c, tile.c_stride);
    case Start::bias:
      return tile_product<Start::bias>(rows, columns, depth, tile.a, tile.a_stride, tile.b, tile.b_stride, tile.start,
                                       tile.c, tile.c_stride);
    case Start::accumulate:
      return tile_product<Start::accumulate>(rows, columns, depth, tile.a, tile.a_stride, tile.b, tile.b_stride,
                                             nullptr, tile.c, tile.c_stride);
    case Start::rescale:
      return tile_product_rescaled(rows, columns, depth, tile.a, tile.a_stride, tile.b, tile.b_stride, tile.start,
                                   tile.c, tile.c_stride);
    case Start::add:
      return tile_product_of_depth<Start::add, 16>(rows, columns, tile.a, tile.a_stride, tile.b, tile.b_stride, tile.c,
                                                   tile.c_stride);
  }
}

void product_from_arrays(int start, std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                         const float* b, const float* started, float* c) {
  product_of(start, rows, columns, depth, {a, depth + 1, b, columns + 3, started, c, columns + 5});
}

void transposed_product_from_arrays(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                                    const float* b, float* c) {
  tile_product_transposed(rows, columns, depth, a, rows + 1, b, columns, c, columns);
}

void plain_product_from_arrays(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                               const float* b, float* c) {
  tile_product<Start::add>(rows, columns, depth, a, depth, b, columns, nullptr, c, columns);
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"
#include "tests/largest_error.h"

namespace foxscope::kernels {
HWY_EXPORT(exp2_of);
HWY_EXPORT(product_from_arrays);
HWY_EXPORT(transposed_product_from_arrays);
HWY_EXPORT(plain_product_from_arrays);

namespace testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(TileMath, Exp2IsWithinOneUnitInTheLastPlace) {
  std::vector<float> x;
  for (int step = -126 * 4096; step < 127 * 4096 + 2048; ++step) x.push_back(static_cast<float>(step) * 0x1p-12F);
  for (int exponent = -140; exponent <= 0; ++exponent) {
    x.push_back(std::ldexp(0.7F, exponent));
    x.push_back(std::ldexp(-0.9F, exponent));
  }
  x.resize((x.size() + 15) / 16 * 16, 0.0F);
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    std::vector<float> y(x.size(), std::numeric_limits<float>::quiet_NaN());
    HWY_DYNAMIC_DISPATCH(exp2_of)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      largest = test::largest_error(largest, (static_cast<double>(y[i]) - exact) / exact);
    }
    EXPECT_LE(largest, 1.2e-7) << hwy::TargetName(target);
  }
}

TEST(TileMath, AddedIsWhatIsRescaledByOne) {
  constexpr std::int64_t kColumns = 64;
  constexpr std::int64_t kDepth = 16;
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t rows : {1, 4, 7, 24, 37, 64}) {
      std::vector<float> a(static_cast<std::size_t>(rows * (kDepth + 1)));
      std::vector<float> b(static_cast<std::size_t>(kDepth * (kColumns + 3)));
      std::vector<float> added(static_cast<std::size_t>(rows * (kColumns + 5)));
      std::mt19937 random(1);
      std::normal_distribution<float> normal;
      for (std::vector<float>* values : {&a, &b, &added}) {
        for (float& value : *values) value = normal(random);
      }
      std::vector<float> rescaled = added;
      const std::vector<float> ones(static_cast<std::size_t>(rows), 1.0F);
      const auto product = [&](int start, std::vector<float>& c) {
        HWY_DYNAMIC_DISPATCH(product_from_arrays)
        (start, rows, kColumns, kDepth, a.data(), b.data(), ones.data(), c.data());
      };
      constexpr int kRescale = 3;
      constexpr int kAdd = 4;
      product(kRescale, rescaled);
      product(kAdd, added);
      EXPECT_EQ(added, rescaled) << hwy::TargetName(target) << " " << rows;
    }
  }
}

TEST(TileMath, Exp2OfWholeNumbersIsExactAndOfExtremesIsDefined) {
  std::vector<float> x;
  std::vector<float> expected;
  for (int power = -126; power <= 127; ++power) {
    x.push_back(static_cast<float>(power));
    expected.push_back(std::ldexp(1.0F, power));
  }
  for (const float low : {-126.001F, -127.0F, -150.0F, -1e4F, -1e30F, -kInfinity}) {
    x.push_back(low);
    expected.push_back(0.0F);
  }
  for (const float high : {127.5F, 128.0F, 1e4F, 1e30F, kInfinity}) {
    x.push_back(high);
    expected.push_back(kInfinity);
  }
  x.resize((x.size() + 15) / 16 * 16, std::numeric_limits<float>::quiet_NaN());
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(exp2_of)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y[i], expected[i]) << x[i];
    for (std::size_t i = expected.size(); i < x.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
  }
}

/// A product with every start, against float64; the matrices have gaps between their rows.
void expect_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, int start) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = normal(random);
    return numbers;
  };
  const std::vector<float> a = draw(rows * (depth + 1));
  const std::vector<float> b = draw(depth * (columns + 3));
  const std::vector<float> started = draw(std::max(rows, columns));
  const std::vector<float> before = draw(rows * (columns + 5));
  std::vector<float> c = before;
  HWY_DYNAMIC_DISPATCH(product_from_arrays)
  (start, rows, columns, depth, a.data(), b.data(), started.data(), c.data());
  double largest = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < columns + 5; ++n) {
      const auto at = static_cast<std::size_t>(r * (columns + 5) + n);
      const double old = before[at];
      double expected = old;
      if (n < columns) {
        if (start == 0) expected = 0;
        if (start == 1) expected = started[index_of(n)];
        if (start == 3) expected = old * static_cast<double>(started[index_of(r)]);
        for (std::int64_t k = 0; k < depth; ++k) {
          expected += static_cast<double>(a[index_of(r * (depth + 1) + k)]) *
                      static_cast<double>(b[index_of(k * (columns + 3) + n)]);
        }
      }
      largest = test::largest_error(largest, static_cast<double>(c[at]) - expected);
    }
  }
  EXPECT_LE(largest, 1e-6 * static_cast<double>(depth + 4)) << rows << 'x' << columns << 'x' << depth << ' ' << start;
}

TEST(TileMath, ProductsEqualFloat64) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 13, 24, 31, 48}) {
      for (const std::int64_t columns : {16, 32, 48, 64, 80, 112, 144}) {
        for (int start = 0; start < 4; ++start) expect_product(rows, columns, 33, start);
      }
    }
    for (const std::int64_t depth : {0, 1, 200}) {
      for (int start = 0; start < 4; ++start) expect_product(7, 64, depth, start);
    }
  }
}

TEST(TileMath, ATransposedFactorGivesTheSameBits) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t rows : {1, 4, 7, 24, 64}) {
      for (const std::int64_t columns : {16, 64, 80}) {
        for (const std::int64_t depth : {0, 1, 33, 96}) {
          std::mt19937 random(1);
          std::normal_distribution<float> normal;
          std::vector<float> plain(static_cast<std::size_t>(rows * depth));
          std::vector<float> transposed(static_cast<std::size_t>(depth * (rows + 1)), normal(random));
          std::vector<float> b(static_cast<std::size_t>(depth * columns));
          std::vector<float> c(static_cast<std::size_t>(rows * columns));
          for (std::vector<float>* values : {&plain, &b, &c}) {
            for (float& value : *values) value = normal(random);
          }
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t k = 0; k < depth; ++k) {
              transposed[index_of(k * (rows + 1) + r)] = plain[index_of(r * depth + k)];
            }
          }
          std::vector<float> expected = c;
          HWY_DYNAMIC_DISPATCH(plain_product_from_arrays)
          (rows, columns, depth, plain.data(), b.data(), expected.data());
          HWY_DYNAMIC_DISPATCH(transposed_product_from_arrays)
          (rows, columns, depth, transposed.data(), b.data(), c.data());
          EXPECT_EQ(c, expected) << hwy::TargetName(target) << ' ' << rows << 'x' << columns << 'x' << depth;
        }
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace foxscope::kernels
#endif
